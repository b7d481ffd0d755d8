//! Tensor parallelism: a communicator within a model, with gradients.

use std::fmt;
use std::sync::Arc;

use candle_core::shape::Dim;
use candle_core::{Result as Theirs, Tensor};

use super::crossing::{Crossing, Move};
use crate::derived::debug;
use crate::error::{Error, Site};
use crate::lock::Mutex;
use crate::{Communicator, Ordered, Rank, Result, World};

/// The ranks over which the layers of a model are cut: what a column- or row-parallel layer holds.
/// `Clone + Send + Sync`.
///
/// Its methods enter and leave the region of a model where ranks compute different parts; outside,
/// tensors and gradients are the same on all ranks. They are Megatron's, gradients are recorded,
/// and they return candle's `Result`, for use in `Module::forward`:
///
/// | | forward | gradient |
/// |---|---|---|
/// | [`copy_to_region`](Self::copy_to_region), Megatron's *f* | as it is | all_reduce |
/// | [`reduce_from_region`](Self::reduce_from_region), *g* | all_reduce | as it is |
/// | [`scatter_to_region`](Self::scatter_to_region) | this rank's part | all_gather |
/// | [`gather_from_region`](Self::gather_from_region) | all_gather | this rank's part |
/// | [`all_gather_to_region`](Self::all_gather_to_region) | all_gather | reduce_scatter |
/// | [`reduce_scatter_from_region`](Self::reduce_scatter_from_region) | reduce_scatter | all_gather |
///
/// The last two are of sequence parallelism, where tensors outside are parts too.
///
/// ```
/// use candle_core::{Module, Tensor, Var};
/// use typed_nccl::interop::candle::{self, Parallel};
/// use typed_nccl::{Communicator, Device, Error, Result, launch};
///
/// /// `y = x W`, with a part of the columns of `W` on each rank.
/// struct ColumnParallel<D: Device> {
///     weight: Tensor,
///     tp: Parallel<D>,
/// }
///
/// impl<D: Device + 'static> Module for ColumnParallel<D> {
///     fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
///         self.tp.copy_to_region(x)?.matmul(&self.weight)
///     }
/// }
///
/// /// `y = x W`, with a part of the rows of `W`, and of the columns of `x`, on each rank.
/// struct RowParallel<D: Device> {
///     weight: Tensor,
///     tp: Parallel<D>,
/// }
///
/// impl<D: Device + 'static> Module for RowParallel<D> {
///     fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
///         self.tp.reduce_from_region(&x.matmul(&self.weight)?)
///     }
/// }
///
/// fn job<D: Device + 'static>(comm: Communicator<D>) -> Result<()> {
///     let tp = Parallel::new(comm);
///     let device = candle::device(tp.device())?;
///     let part = |rows, columns| Var::ones((rows, columns), candle_core::DType::F32, &device);
///     let (up, down) = (part(4, 3)?, part(3, 4)?);
///     let first = ColumnParallel { weight: up.as_tensor().clone(), tp: tp.clone() };
///     let second = RowParallel { weight: down.as_tensor().clone(), tp: tp.clone() };
///
///     let x = Var::ones((2, 4), candle_core::DType::F32, &device)?;
///     let y = second.forward(&first.forward(&x)?.relu()?)?;
///     let columns = 3.0 * tp.size() as f32;
///     assert_eq!(y.to_vec2::<f32>()?, vec![vec![4.0 * columns; 4]; 2]);
///
///     let gradients = y.sum_all()?.backward()?;
///     let of_x = gradients.get(&x).ok_or_else(|| Error::other("x has no gradient"))?;
///     assert_eq!(of_x.to_vec2::<f32>()?, vec![vec![4.0 * columns; 4]; 2]);
///     tp.finish()
/// }
///
/// fn main() -> Result<()> {
///     launch!(job)
/// }
/// ```
///
/// # Order
/// The ranks must make the same calls in the same order, in `backward` too. candle computes
/// gradients in an order that depends on the graph alone, so ranks whose forward passes made the
/// same operations on tensors that track gradients alike are in step. They are not if one rank
/// freezes a layer (`detach`, no `Var`) that another trains, or takes another branch. Calls
/// that differ then fail with [`Error::Mismatch`], which names both layers' lines; a rank that
/// makes fewer calls leaves the others waiting until it makes another, ends, or their deadline
/// passes; calls that agree by chance add what does not belong together. A gradient's call is
/// reported at the line of the forward one.
///
/// One thread of a rank calls at a time. Threads whose order may differ between ranks, as those
/// that serve requests, need [`Parallel::ordered`].
///
/// # `'static`
/// candle keeps what records gradients in the tensor, so the device has to be `'static`: write
/// `D: Device + 'static`. Devices of `launch!`, and all that a program opens itself, are;
/// those of `spmd` belong to its closure.
pub struct Parallel<W: World> {
    shared: Arc<Shared<W>>,
}

struct Shared<W: World> {
    /// Until it has been finished.
    calls: Mutex<Option<Arc<Calls<W>>>>,
    device: W::Device,
    rank: Rank,
    size: usize,
}

/// Who says in which order the calls of several threads are made.
enum Calls<W: World> {
    /// The program.
    InTurn(Mutex<Communicator<W>>),
    Ordered(Ordered<W>),
}

impl<W: World> Parallel<W> {
    /// For one thread at a time: a training loop, or a server that computes one batch after the
    /// other. Local.
    pub fn new(comm: Communicator<W>) -> Self {
        let (device, rank, size) = (comm.device().clone(), comm.rank(), comm.size());
        Self::of(Calls::InTurn(Mutex::new(comm)), device, (rank, size))
    }

    /// For a model that several threads use at once, in an order that differs by rank. Each thread
    /// computes within [`request`](Self::request); a call outside of one is refused. All ranks must
    /// call it; the host waits for them.
    ///
    /// # Errors
    /// As [`Ordered::new`].
    #[track_caller]
    pub fn ordered(comm: Communicator<W>) -> Result<Self> {
        let (device, rank, size) = (comm.device().clone(), comm.rank(), comm.size());
        let ordered = Ordered::new(comm)?;
        Ok(Self::of(Calls::Ordered(ordered), device, (rank, size)))
    }

    fn of(calls: Calls<W>, device: W::Device, (rank, size): (Rank, usize)) -> Self {
        let calls = Mutex::new(Some(Arc::new(calls)));
        Self { shared: Arc::new(Shared { calls, device, rank, size }) }
    }

    /// Computes the request `key` on this thread: the calls of `work` are those that the work of
    /// that key makes on the other ranks, on whatever threads and in whatever order requests come
    /// there. Requests that are under way at one time need different keys. Local.
    ///
    /// Of a [`Parallel::new`] it only calls `work`.
    ///
    /// # Errors
    /// Whatever `work` returns; it was finished.
    #[track_caller]
    pub fn request<T, E: From<Error>>(
        &self,
        key: impl fmt::Display,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        match &*self.calls(Site::caller())? {
            Calls::InTurn(_) => work(),
            Calls::Ordered(ordered) => ordered.numbered(key, work),
        }
    }

    /// Enters the region with a tensor that all ranks have: Megatron's *f*, in front of a
    /// column-parallel layer. Its gradient is the sum of the ranks'. Without a gradient to record
    /// it is the same tensor, and nothing is called.
    ///
    /// # Errors
    /// candle's. Its gradient's: as [`reduce_from_region`](Self::reduce_from_region).
    #[track_caller]
    pub fn copy_to_region(&self, x: &Tensor) -> Theirs<Tensor>
    where
        W: 'static,
    {
        self.cross("copy_to_region", x, 0, Move::Keep, Move::Sum)
    }

    /// Leaves the region with the sum of the ranks' tensors: Megatron's *g*, behind a row-parallel
    /// layer. All ranks must call, with tensors of one shape and type. NCCL: `ncclAllReduce`, 2.3.
    ///
    /// # Errors
    /// As [`Device::lend`](crate::Device::lend) and [`Communicator::all_reduce`]; under
    /// [`Parallel::ordered`], as [`Ordered::submit_next`]. [`ours`](super::ours) finds them in
    /// candle's.
    #[track_caller]
    pub fn reduce_from_region(&self, x: &Tensor) -> Theirs<Tensor>
    where
        W: 'static,
    {
        self.cross("reduce_from_region", x, 0, Move::Sum, Move::Keep)
    }

    /// Enters the region with this rank's part of a tensor that all ranks have, of as many parts
    /// along `dim` as there are ranks. The gradient is gathered from the ranks.
    ///
    /// # Errors
    /// A dimension that is no multiple of the number of ranks. Its gradient's: as
    /// [`gather_from_region`](Self::gather_from_region).
    #[track_caller]
    pub fn scatter_to_region(&self, x: &Tensor, dim: impl Dim) -> Theirs<Tensor>
    where
        W: 'static,
    {
        let dim = dim.to_index(x.shape(), "scatter_to_region")?;
        self.cross("scatter_to_region", x, dim, Move::Part, Move::Gather)
    }

    /// Leaves the region with all ranks' tensors, one after the other along `dim`. The gradient is
    /// this rank's part. All ranks must call, with tensors of one shape and type. NCCL:
    /// `ncclAllGather`, 2.3.
    ///
    /// # Errors
    /// As [`reduce_from_region`](Self::reduce_from_region).
    #[track_caller]
    pub fn gather_from_region(&self, x: &Tensor, dim: impl Dim) -> Theirs<Tensor>
    where
        W: 'static,
    {
        let dim = dim.to_index(x.shape(), "gather_from_region")?;
        self.cross("gather_from_region", x, dim, Move::Gather, Move::Part)
    }

    /// Enters the region with all ranks' tensors, one after the other along `dim`, where each rank
    /// has a part outside: sequence parallelism in front of a column-parallel layer. The gradient
    /// is this rank's part of the sum of the ranks'. All ranks must call, with tensors of one shape
    /// and type. NCCL: `ncclAllGather`, 2.3.
    ///
    /// # Errors
    /// As [`reduce_from_region`](Self::reduce_from_region).
    #[track_caller]
    pub fn all_gather_to_region(&self, x: &Tensor, dim: impl Dim) -> Theirs<Tensor>
    where
        W: 'static,
    {
        let dim = dim.to_index(x.shape(), "all_gather_to_region")?;
        self.cross("all_gather_to_region", x, dim, Move::Gather, Move::SumPart)
    }

    /// Leaves the region with this rank's part of the sum of the ranks' tensors, of as many parts
    /// along `dim` as there are ranks: sequence parallelism behind a row-parallel layer. The
    /// gradient is gathered from the ranks. All ranks must call, with tensors of one shape and
    /// type. NCCL: `ncclReduceScatter`, 2.3.
    ///
    /// # Errors
    /// As [`reduce_from_region`](Self::reduce_from_region); a dimension that is no multiple of the
    /// number of ranks.
    #[track_caller]
    pub fn reduce_scatter_from_region(&self, x: &Tensor, dim: impl Dim) -> Theirs<Tensor>
    where
        W: 'static,
    {
        let dim = dim.to_index(x.shape(), "reduce_scatter_from_region")?;
        self.cross("reduce_scatter_from_region", x, dim, Move::SumPart, Move::Gather)
    }

    #[track_caller]
    fn cross(
        &self,
        name: &'static str,
        x: &Tensor,
        dim: usize,
        forward: Move,
        backward: Move,
    ) -> Theirs<Tensor>
    where
        W: 'static,
    {
        let (ranks, site) = (self.clone(), Site::caller());
        Crossing { ranks, name, forward, backward, site }.apply(x, dim)
    }

    /// Makes a call in its turn.
    pub(super) fn call(
        &self,
        site: Site,
        call: impl FnOnce(&Communicator<W>) -> Result<()>,
    ) -> Result<()> {
        match &*self.calls(site)? {
            Calls::InTurn(comm) => call(&comm.lock()),
            Calls::Ordered(ordered) => ordered.submit_next_at(site, |comm| call(comm)),
        }
    }

    fn calls(&self, site: Site) -> Result<Arc<Calls<W>>> {
        let calls = self.shared.calls.lock().clone();
        calls.ok_or_else(|| Error::other(format!("{} was finished before (at {site})", W::NAME)))
    }

    /// Takes the communicator out of this and all its clones, those in layers and in tensors
    /// included; their later calls fail. Local.
    ///
    /// # Errors
    /// Another thread is in a call, or it was taken before.
    #[track_caller]
    pub fn into_inner(self) -> Result<Communicator<W>> {
        let site = Site::caller();
        let mut calls = self.shared.calls.lock();
        match calls.take().map(Arc::try_unwrap) {
            Some(Ok(Calls::InTurn(comm))) => Ok(comm.into_inner()),
            Some(Ok(Calls::Ordered(ordered))) => Ok(ordered.into_inner()),
            Some(Err(used)) => {
                *calls = Some(used);
                let says = format!("{}: another thread is in a call or a request", W::NAME);
                Err(Error::other(format!("{says}; wait for it first (at {site})")))
            }
            None => Err(Error::other(format!("{} was finished before (at {site})", W::NAME))),
        }
    }

    /// [Takes it out](Self::into_inner) and [finishes](Communicator::finish) it.
    ///
    /// # Errors
    /// As [`into_inner`](Self::into_inner) and [`finish`](Communicator::finish).
    #[track_caller]
    pub fn finish(self) -> Result<()> {
        self.into_inner()?.finish()
    }

    /// This rank, whose part of a weight it has.
    pub fn rank(&self) -> Rank {
        self.shared.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// The device; [`device`](super::device) gives candle's.
    pub fn device(&self) -> &W::Device {
        &self.shared.device
    }
}

impl<W: World> Clone for Parallel<W> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

debug!(
    [W: World] Parallel<W>,
    self => "Parallel {}, rank {} of {}", W::NAME, self.rank(), self.size()
);
