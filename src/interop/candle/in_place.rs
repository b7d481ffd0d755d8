//! Loans of tensors for writing.

use candle_core::Tensor;

use super::lend::Locked;
use super::taken::Taken;
use crate::error::Site;
use crate::memory::lend;
use crate::{Device, DynSlice, DynSliceMut, Result};

/// Lends `tensor` to `work` for reading and writing; otherwise as [`Device::lend`]. Not for tensors
/// whose gradients are recorded, since these writes are not.
///
/// **The elements are out of the tensor until this returns.** In the closure and on other threads,
/// candle's own methods on it, its clones and its views (`x.to_vec1()`, `x.sum_all()`,
/// `var.set(..)`) return candle's error about type `f6e2m3`, which it does not compute with; a copy
/// between two such tensors panics in candle. Use the view in the closure instead. The result of
/// candle's `storage_and_layout` is a lock guard: a guard that outlives the closure is waited for,
/// and for ever if this thread holds it.
///
/// # Errors
/// As [`Device::lend`]; [`Error::NotAdoptable`](crate::Error::NotAdoptable): elements that are not
/// one contiguous block in C order, of a type that NCCL lacks, or in use by another loan.
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

/// Lends several tensors to `work` for reading and writing, in the order given, such as the
/// gradients of a model. As [`in_place`].
///
/// # Errors
/// As [`in_place`]; two of them share memory.
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

/// Lends `source` to `work` for reading and `target` for writing. `target` is lent as in
/// [`in_place`].
///
/// # Errors
/// As [`in_place`]; the two share memory.
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
