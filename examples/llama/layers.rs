//! Linear layers whose weights are cut over the ranks.

use candle_core::{D, Module, Result, Tensor};
use candle_nn::{Linear, VarBuilder};
use typed_nccl::World;
use typed_nccl::interop::candle::Parallel;

/// A part of the outputs on each rank.
pub(crate) struct ColumnParallel<W: World> {
    linear: Linear,
    tp: Parallel<W>,
}

impl<W: World> ColumnParallel<W> {
    pub(crate) fn load(
        weights: &VarBuilder<'_>,
        (outputs, inputs): (usize, usize),
        tp: &Parallel<W>,
    ) -> Result<Self> {
        let weight = part(&weights.get((outputs, inputs), "weight")?, 0, tp)?;
        Ok(Self { linear: Linear::new(weight, None), tp: tp.clone() })
    }
}

impl<W: World + 'static> ColumnParallel<W> {
    /// All outputs, on every rank.
    pub(crate) fn forward_gathered(&self, x: &Tensor) -> Result<Tensor> {
        self.tp.gather_from_region(&self.forward(x)?, D::Minus1)
    }
}

impl<W: World + 'static> Module for ColumnParallel<W> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.linear.forward(&self.tp.copy_to_region(x)?)
    }
}

/// A part of the inputs on each rank, as column-parallel layers give them.
pub(crate) struct RowParallel<W: World> {
    linear: Linear,
    tp: Parallel<W>,
}

impl<W: World> RowParallel<W> {
    pub(crate) fn load(
        weights: &VarBuilder<'_>,
        (outputs, inputs): (usize, usize),
        tp: &Parallel<W>,
    ) -> Result<Self> {
        let weight = part(&weights.get((outputs, inputs), "weight")?, 1, tp)?;
        Ok(Self { linear: Linear::new(weight, None), tp: tp.clone() })
    }
}

impl<W: World + 'static> Module for RowParallel<W> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.tp.reduce_from_region(&self.linear.forward(x)?)
    }
}

/// This rank's part of a weight.
fn part<W: World>(weight: &Tensor, dim: usize, tp: &Parallel<W>) -> Result<Tensor> {
    let (len, size) = (weight.dim(dim)?, tp.size());
    if len % size > 0 {
        candle_core::bail!("{len} heads or columns cannot be shared out over {size} ranks")
    }
    weight.narrow(dim, tp.rank().index() * (len / size), len / size)?.contiguous()
}
