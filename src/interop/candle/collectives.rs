//! Collectives of whole tensors, each into a new one.

use candle_core::Tensor;

use super::between;
use crate::backend::{Reduction, Refusal};
use crate::collectives::Draft;
use crate::communicator::Ready;
use crate::element::DynElem;
use crate::error::{CollectiveName, Site};
use crate::memory::Readable as _;
use crate::{Communicator, Device, DynSlice, DynSliceMut, ReduceOp, Result, World};

/// The reduction of all ranks' tensors, on every rank, as a tensor of `x`'s shape. All ranks must
/// call; their tensors have one number of elements and one type.
///
/// `x` may have any layout, and stays as it is. Gradients are not recorded. On the host this
/// returns when the result is there; on a GPU candle's stream waits for it. NCCL: `ncclAllReduce`,
/// 2.3.
///
/// # Errors
/// As [`between`] and [`Communicator::all_reduce`].
///
/// ```
/// # use candle_core::{Device, Tensor};
/// # use typed_nccl::interop::candle;
/// # use typed_nccl::{Host, Result, Seat, Sum};
/// # fn main() -> Result<()> {
/// let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let x = Tensor::arange(0.0_f32, 6.0, &Device::Cpu)?.reshape((2, 3))?;
/// let sum = candle::all_reduce(&comm, &x.t()?, Sum)?;
/// assert_eq!(sum.dims(), [3, 2]);
/// # comm.finish()
/// # }
/// ```
#[track_caller]
pub fn all_reduce<W: World>(
    comm: &Communicator<W, Ready>,
    x: &Tensor,
    op: impl ReduceOp<DynElem, W>,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let result = x.zeros_like()?;
    let (site, op) = (Site::caller(), Some(op.resolve(&comm.body.core.resources)));
    between(comm.device(), &x, &result, |x, y| {
        issue(comm, site, CollectiveName::AllReduce, (x, y), op)
    })?;
    Ok(result)
}

/// All ranks' tensors, one after the other along the first dimension, on every rank. All ranks must
/// call, with tensors of one shape. Otherwise as [`all_reduce`]. NCCL: `ncclAllGather`, 2.3.
///
/// # Errors
/// As [`between`] and [`Communicator::all_gather`]; a tensor without dimensions.
#[track_caller]
pub fn all_gather<W: World>(comm: &Communicator<W, Ready>, x: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    let result = with_rows(&x, |rows| rows * comm.size())?;
    let site = Site::caller();
    between(comm.device(), &x, &result, |x, y| {
        issue(comm, site, CollectiveName::AllGather, (x, y), None)
    })?;
    Ok(result)
}

/// This rank's part of the reduction of all ranks' tensors: of as many parts along the first
/// dimension as there are ranks, the one of its number. All ranks must call, with tensors of one
/// shape. Otherwise as [`all_reduce`]. NCCL: `ncclReduceScatter`, 2.3.
///
/// # Errors
/// As [`between`] and [`Communicator::reduce_scatter`]; a first dimension that is no multiple of
/// the number of ranks, or none.
#[track_caller]
pub fn reduce_scatter<W: World>(
    comm: &Communicator<W, Ready>,
    x: &Tensor,
    op: impl ReduceOp<DynElem, W>,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let result = with_rows(&x, |rows| rows / comm.size())?;
    let (site, op) = (Site::caller(), Some(op.resolve(&comm.body.core.resources)));
    between(comm.device(), &x, &result, |x, y| {
        issue(comm, site, CollectiveName::ReduceScatter, (x, y), op)
    })?;
    Ok(result)
}

/// Exchanges parts: part `i` along the first dimension goes to rank `i`, and the result has the
/// part of rank `i` at `i`. All ranks must call, with tensors of one shape. Otherwise as
/// [`all_reduce`]. NCCL: `ncclAlltoAll`, 2.28.
///
/// # Errors
/// As [`between`] and [`Communicator::all_to_all`]; a first dimension that is no multiple of the
/// number of ranks, or none.
#[track_caller]
pub fn all_to_all<W: World>(comm: &Communicator<W, Ready>, x: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    // Rows are not cut: the lengths differ then, and the call is refused on all ranks.
    let result = with_rows(&x, |rows| rows / comm.size() * comm.size())?;
    let site = Site::caller();
    between(comm.device(), &x, &result, |x, y| {
        issue(comm, site, CollectiveName::AllToAll, (x, y), None)
    })?;
    Ok(result)
}

/// Issues a collective under the line that asked for it.
pub(super) fn issue<'a, W: World>(
    comm: &'a Communicator<W, Ready>,
    site: Site,
    name: CollectiveName,
    (x, y): (&'a DynSlice<'_, W::Device>, &'a mut DynSliceMut<'_, W::Device>),
    op: Option<Result<Reduction<'a, <W::Device as Device>::Backend>>>,
) -> Result<()> {
    let sides = (Some((x.dtype(), x.span())), Some((y.dtype(), y.span())));
    let op = Draft::between(&comm.body.core, site, name, sides, op, None);
    comm.here().run(Refusal::Collective, op)
}

/// A tensor for the result, with another first dimension.
fn with_rows(x: &Tensor, rows: impl Fn(usize) -> usize) -> candle_core::Result<Tensor> {
    let mut shape = x.dims().to_vec();
    let first = x.dim(0)?;
    if let Some(own) = shape.first_mut() {
        *own = rows(first);
    }
    Tensor::zeros(shape, x.dtype(), x.device())
}
