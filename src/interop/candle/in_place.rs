//! Tensors that are written.

use candle_core::Tensor;

use super::lend::Locked;
use super::taken::Taken;
use crate::error::Site;
use crate::memory::lend;
use crate::{Device, DynSlice, DynSliceMut, Result};

/// Lends `tensor` to `work`, to be read and written. Else as [`Device::lend`]. For a tensor whose gradients
/// are recorded: what is written is not.
///
/// **The elements are out of the tensor until this returns.** candle's own methods on it, on its clones and
/// on its views (`x.to_vec1()`, `x.sum_all()`, `var.set(..)`) return candle's error, of a type `f6e2m3` that
/// it does not compute with, in the closure and on other threads; a copy between two such tensors panics in
/// candle. The closure uses the view instead. What candle's `storage_and_layout` gives is a lock: one that
/// outlives the closure is waited for, for ever if it is this thread's.
///
/// # Errors
/// As [`Device::lend`]; [`Error::NotAdoptable`](crate::Error::NotAdoptable): elements that are not one piece
/// of memory in C order, of a type that NCCL does not have, or in use by another loan.
#[track_caller]
pub fn in_place<D: Device, R>(
    device: &D,
    tensor: &Tensor,
    work: impl FnOnce(&mut DynSliceMut<'_, D>) -> Result<R>,
) -> Result<R> {
    let site = Site::caller();
    let mut taken = Taken::new(tensor, site)?;
    lend(device, taken.locked()?, |view| work(view), site)
}

/// Lends several tensors to `work`, each to be read and written, in the order given: the gradients of a
/// model. As [`in_place`].
///
/// # Errors
/// As [`in_place`]; two of them that are over one memory are in use by each other.
#[track_caller]
pub fn in_place_each<D: Device, R>(
    device: &D,
    tensors: &[&Tensor],
    work: impl FnOnce(&mut Vec<DynSliceMut<'_, D>>) -> Result<R>,
) -> Result<R> {
    let site = Site::caller();
    let taken: Result<Vec<_>> = tensors.iter().map(|tensor| Taken::new(tensor, site)).collect();
    let mut taken = taken?;
    let locked: Result<Vec<_>> = taken.iter_mut().map(Taken::locked).collect();
    lend(device, locked?, |views| work(views), site)
}

/// Lends `source` to `work` to be read, and `target` to be written, which is as in [`in_place`].
///
/// # Errors
/// As [`in_place`]; where both are over one memory, it is in use.
#[track_caller]
pub fn between<D: Device, R>(
    device: &D,
    source: &Tensor,
    target: &Tensor,
    work: impl FnOnce(&DynSlice<'_, D>, &mut DynSliceMut<'_, D>) -> Result<R>,
) -> Result<R> {
    let site = Site::caller();
    let mut target = Taken::new(target, site)?;
    let both = (Locked::shared(source, site)?, target.locked()?);
    lend(device, both, |(x, y)| work(&x.as_slice(), y), site)
}
