//! A differentiable operation: what it does to a tensor, and what to the gradient.

use candle_core::backend::BackendDevice as _;
use candle_core::{CpuStorage, CustomOp1, Layout, Result as Theirs, Shape, Tensor};

use super::collectives::issue;
use super::{OperandStorage, Parallel, storage, storage_mut};
use crate::error::{CollectiveName, Site};
use crate::{DynElem, ReduceOp, Sum, World};

/// Where the elements go, along the first dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// They stay.
    Keep,
    /// This rank's part stays.
    Part,
    /// The sum of all ranks' goes to every rank.
    Sum,
    /// All ranks' parts go to every rank.
    Gather,
    /// This rank's part of the sum stays.
    SumPart,
}

impl Move {
    fn collective(self) -> Option<CollectiveName> {
        match self {
            Self::Keep | Self::Part => None,
            Self::Sum => Some(CollectiveName::AllReduce),
            Self::Gather => Some(CollectiveName::AllGather),
            Self::SumPart => Some(CollectiveName::ReduceScatter),
        }
    }
}

/// An operation of candle's between tensors that all ranks have alike and such that differ by rank.
pub(super) struct Crossing<W: World> {
    pub(super) ranks: Parallel<W>,
    pub(super) name: &'static str,
    pub(super) forward: Move,
    pub(super) backward: Move,
    /// The line of the layer.
    pub(super) site: Site,
}

impl<W: World + 'static> Crossing<W> {
    /// Applies it along `dim`, and records it if a gradient may be asked for.
    pub(super) fn apply(self, x: &Tensor, dim: usize) -> Theirs<Tensor> {
        if self.forward == Move::Keep && !x.track_op() {
            return Ok(x.clone());
        }
        if matches!(self.forward, Move::Part | Move::SumPart) {
            self.shares(x.dim(dim)?, dim)?;
        }
        if self.forward == Move::Keep || self.backward == Move::Keep {
            return self.laid_out(x)?.apply_op1(self);
        }
        // Parts are along the first dimension.
        let x = self.laid_out(&x.transpose(0, dim)?)?;
        x.apply_op1(self)?.transpose(0, dim)?.contiguous()
    }

    fn shares(&self, len: usize, dim: usize) -> Theirs<()> {
        let (Self { name, site, .. }, size) = (self, self.ranks.size());
        match len % size {
            0 => Ok(()),
            _ => candle_core::bail!(
                "{name} (at {site}): {len} elements along dimension {dim} are no multiple of {size} ranks"
            ),
        }
    }

    /// What is communicated is one block of memory.
    fn laid_out(&self, x: &Tensor) -> Theirs<Tensor> {
        if self.forward.collective().is_some() { x.contiguous() } else { Ok(x.clone()) }
    }

    fn moved<S: OperandStorage>(&self, x: &S, layout: &Layout) -> Theirs<(S, Shape)> {
        let (rank, size) = (self.ranks.rank().index(), self.ranks.size());
        let mut shape = layout.dims().to_vec();
        if let Some(rows) = shape.first_mut() {
            match self.forward {
                Move::Keep | Move::Sum => {}
                Move::Gather => *rows *= size,
                Move::Part | Move::SumPart => *rows /= size,
            }
        }
        let shape = Shape::from(shape);
        let mut y = x.device().zeros_impl(&shape, x.dtype())?;
        let Some(name) = self.forward.collective() else {
            let own = match self.forward {
                Move::Part => {
                    let rows = shape.dims().first().copied().unwrap_or(1);
                    &layout.narrow(0, rank * rows, rows)?
                }
                _ => layout,
            };
            x.copy_strided_src(&mut y, 0, own)?;
            return Ok((y, shape));
        };
        let whole = Layout::contiguous(&shape);
        self.ranks.call(self.site, |comm| {
            let both = (storage(x, layout), storage_mut(&mut y, &whole));
            crate::memory::lend(
                comm.device(),
                both,
                |(x, y)| {
                    let sums = name.spec().reduces;
                    let resources = &comm.body.core.resources;
                    let op = sums.then(|| ReduceOp::<DynElem, W>::resolve(&Sum, resources));
                    issue(comm, self.site, name, (x, y), op)
                },
                self.site,
            )
        })?;
        Ok((y, shape))
    }
}

impl<W: World + 'static> CustomOp1 for Crossing<W> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Theirs<(CpuStorage, Shape)> {
        self.moved(x, layout)
    }

    #[cfg(feature = "candle-cuda")]
    fn cuda_fwd(
        &self,
        x: &candle_core::CudaStorage,
        layout: &Layout,
    ) -> Theirs<(candle_core::CudaStorage, Shape)> {
        self.moved(x, layout)
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Theirs<Option<Tensor>> {
        let Self { ref ranks, name, forward, backward, site } = *self;
        if backward == Move::Keep {
            return Ok(Some(gradient.clone()));
        }
        let ranks = ranks.clone();
        let back = Self { ranks, name, forward: backward, backward: forward, site };
        Ok(Some(back.laid_out(gradient)?.apply_op1_no_bwd(&back)?))
    }
}
