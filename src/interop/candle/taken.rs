//! A tensor's elements while they are lent for writing: outside the tensor.
//!
//! candle permits writes only in an operation that runs under the tensor's lock. A closure that ran
//! there and called the tensor's own methods would wait for that lock for ever. So our operation
//! only takes the elements out, and another puts them back after the loan. In between, candle finds
//! elements of a type that it does not compute with.

use std::cell::Cell;
use std::mem;

use candle_core::{CpuStorage, InplaceOp1, Layout, Result as Theirs, Tensor};
#[cfg(feature = "candle-cuda")]
use candle_core::{CudaStorage, cuda_backend::CudaStorageSlice};

use super::lend::{Locked, claim};
use super::storage::Held;
use crate::error::{Error, NotAdoptable, Site};
use crate::memory::Claim;
use crate::{Result, unwind};

/// A tensor that is lent for writing.
pub(super) struct Taken<'a> {
    tensor: &'a Tensor,
    swap: Swap,
    /// Ends once the elements are back.
    _claim: Claim,
}

impl<'a> Taken<'a> {
    /// Takes elements that can be lent and are in no other loan; candle would report those faults
    /// in other words.
    pub(super) fn new(tensor: &'a Tensor, site: Site) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let claim = claim(&storage, true, site)?;
        let described = Held::shared(storage).describe(layout);
        described.map_err(|fault| NotAdoptable::new("lend", fault, site).of("candle"))?;
        let swap = Swap { elements: Cell::new(None) };
        tensor.inplace_op1(&swap)?;
        Ok(Self { tensor, swap, _claim: claim })
    }

    pub(super) fn locked(&mut self) -> Result<Locked<'_>> {
        let held = match self.swap.elements.get_mut() {
            Some(Elements::Cpu(elements)) => Held::Cpu(elements),
            #[cfg(feature = "candle-cuda")]
            Some(Elements::Cuda(elements)) => Held::Cuda(elements),
            None => return Err(Error::other("candle ran nothing")),
        };
        Ok(Locked::borrowed(held, self.tensor.layout()))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // The lock of 0.11.0 panics once an operation of the program has panicked under it.
        let lost = match unwind::catch(|| self.tensor.inplace_op1(&self.swap)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                let says = panic.message();
                panic.end();
                says
            }
        };
        log::error!("a tensor of candle's has lost its elements: {lost}");
    }
}

enum Elements {
    Cpu(CpuStorage),
    #[cfg(feature = "candle-cuda")]
    Cuda(CudaStorage),
}

/// Swaps the elements of a tensor with these. If there are none, the tensor gets a stand-in, of a
/// type that candle only loads and stores.
struct Swap {
    elements: Cell<Option<Elements>>,
}

impl InplaceOp1 for Swap {
    fn name(&self) -> &'static str {
        "typed_nccl::interop::candle"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Theirs<()> {
        let elements = match self.elements.take() {
            Some(Elements::Cpu(elements)) => elements,
            _ => CpuStorage::F6E2M3(Vec::new()),
        };
        self.elements.set(Some(Elements::Cpu(mem::replace(storage, elements))));
        Ok(())
    }

    #[cfg(feature = "candle-cuda")]
    fn cuda_fwd(&self, storage: &mut CudaStorage, _: &Layout) -> Theirs<()> {
        let elements = match self.elements.take() {
            Some(Elements::Cuda(elements)) => elements,
            _ => CudaStorage {
                // One byte, CUDA's smallest allocation.
                slice: CudaStorageSlice::F6E2M3(storage.device.alloc_zeros(1)?),
                device: storage.device.clone(),
            },
        };
        self.elements.set(Some(Elements::Cuda(mem::replace(storage, elements))));
        Ok(())
    }
}
