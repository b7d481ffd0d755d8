//! Tensors that are written.
//!
//! candle hands out a tensor's memory to be written in one way: to an operation that it runs under the
//! tensor's lock. Ours runs the closure.

use std::cell::Cell;
use std::cmp::Ordering;

#[cfg(feature = "candle-cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result as Theirs, Tensor};

use super::lend::Locked;
use super::storage::Held;
use crate::error::{AdoptFault, Error, NotAdoptable, Site};
use crate::memory::lend;
use crate::{Device, DynSlice, DynSliceMut, Result};

/// Lends `tensor` to `work`, to be read and written, with candle's lock held. Else as [`Device::lend`]. For a
/// tensor whose gradients are recorded: what is written is not.
///
/// # Errors
/// As [`Device::lend`]; [`Error::NotAdoptable`]: elements that are not one piece
/// of memory in C order, or of a type that NCCL does not have.
#[track_caller]
pub fn in_place<D: Device, R>(
    device: &D,
    tensor: &Tensor,
    work: impl FnOnce(&mut DynSliceMut<'_, D>) -> Result<R>,
) -> Result<R> {
    let site = Site::caller();
    key(tensor, site)?;
    exclusively(tensor, |tensor| lend(device, tensor, |view| work(view), site))
}

/// Lends several tensors to `work`, each to be read and written, in the order given: the gradients of a
/// model. As [`in_place`].
///
/// # Errors
/// As [`in_place`]; [`Error::NotAdoptable`]: two of them are over one memory.
#[track_caller]
pub fn in_place_each<D: Device, R>(
    device: &D,
    tensors: &[&Tensor],
    work: impl FnOnce(&mut Vec<DynSliceMut<'_, D>>) -> Result<R>,
) -> Result<R> {
    let site = Site::caller();
    let mut order = Vec::with_capacity(tensors.len());
    for (at, tensor) in tensors.iter().enumerate() {
        order.push((key(tensor, site)?, at));
    }
    // As candle does, so that nobody waits in a circle.
    order.sort_unstable();
    if order.windows(2).any(|two| two[0].0 == two[1].0) {
        return Err(one_memory(site));
    }
    let sorted: Vec<&Tensor> = order.iter().map(|(_, at)| tensors[*at]).collect();
    let all = Box::new(|locked: Vec<Locked<'_>>| {
        let mut locked: Vec<_> = order.iter().map(|(_, at)| *at).zip(locked).collect();
        locked.sort_unstable_by_key(|(at, _)| *at);
        let locked: Vec<_> = locked.into_iter().map(|(_, one)| one).collect();
        lend(device, locked, |views| work(views), site)
    });
    nested(&sorted, Vec::with_capacity(sorted.len()), all)
}

/// Lends `source` to `work` to be read, and `target` to be written. As [`in_place`].
///
/// # Errors
/// As [`in_place`]; [`Error::NotAdoptable`]: both are over one memory.
#[track_caller]
pub fn between<D: Device, R>(
    device: &D,
    source: &Tensor,
    target: &Tensor,
    work: impl FnOnce(&DynSlice<'_, D>, &mut DynSliceMut<'_, D>) -> Result<R>,
) -> Result<R> {
    let site = Site::caller();
    let order = key(source, site)?.cmp(&key(target, site)?);
    let work = |from: Locked<'_>, to: Locked<'_>| {
        let work = |(x, y): &mut (DynSliceMut<'_, D>, DynSliceMut<'_, D>)| work(&x.as_slice(), y);
        lend(device, (from, to), work, site)
    };
    match order {
        Ordering::Equal => Err(one_memory(site)),
        Ordering::Less => {
            let source = Locked::shared(source);
            exclusively(target, |target| work(source, target))
        }
        Ordering::Greater => exclusively(target, |target| work(Locked::shared(source), target)),
    }
}

/// What is the same for tensors over one memory, and orders the locks: where candle has it. The tensor is
/// checked, for candle has other words for what is wrong with it.
fn key(tensor: &Tensor, site: Site) -> Result<usize> {
    let (storage, layout) = tensor.storage_and_layout();
    let key = std::ptr::from_ref(&*storage).addr();
    match Held::Shared(storage).describe(layout) {
        Ok(_) => Ok(key),
        Err(fault) => Err(NotAdoptable::new("lend", fault, site).of("candle").into()),
    }
}

fn one_memory(site: Site) -> Error {
    let by = "another tensor of this call, which is over the same memory".to_owned();
    NotAdoptable::new("lend", AdoptFault::InUse { by }, site).of("candle").into()
}

/// A step of [`nested`]: what is done when all are locked.
type All<'w, R> = Box<dyn FnOnce(Vec<Locked<'_>>) -> Result<R> + 'w>;

/// Locks the tensors one in the other.
fn nested<R>(tensors: &[&Tensor], locked: Vec<Locked<'_>>, all: All<'_, R>) -> Result<R> {
    let Some((first, rest)) = tensors.split_first() else { return all(locked) };
    exclusively(first, |one| {
        let mut locked = locked;
        locked.push(one);
        nested(rest, locked, all)
    })
}

/// Runs `work` under the tensor's lock.
fn exclusively<R>(tensor: &Tensor, work: impl FnOnce(Locked<'_>) -> Result<R>) -> Result<R> {
    let operation = UnderLock { work: Cell::new(Some(work)), outcome: Cell::new(None) };
    tensor.inplace_op1(&operation)?;
    operation.outcome.into_inner().unwrap_or_else(|| Err(Error::other("candle ran nothing")))
}

/// The operation that candle runs.
struct UnderLock<F, R> {
    work: Cell<Option<F>>,
    outcome: Cell<Option<Result<R>>>,
}

impl<F: FnOnce(Locked<'_>) -> Result<R>, R> UnderLock<F, R> {
    fn run(&self, held: Held<'_>, layout: &Layout) {
        let outcome = self.work.take().map(|work| work(Locked::exclusive(held, layout)));
        self.outcome.set(outcome);
    }
}

impl<F: FnOnce(Locked<'_>) -> Result<R>, R> InplaceOp1 for UnderLock<F, R> {
    fn name(&self) -> &'static str {
        "typed_nccl::interop::candle"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Theirs<()> {
        self.run(Held::Cpu(storage), layout);
        Ok(())
    }

    #[cfg(feature = "candle-cuda")]
    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Theirs<()> {
        self.run(Held::Cuda(storage), layout);
        Ok(())
    }
}
