//! Finds the elements of a tensor in candle's storage.

use std::ops::Deref;

use candle_core::{CpuStorage, Layout, Storage};
#[cfg(feature = "candle-cuda")]
use {
    candle_core::CudaStorage,
    candle_core::cuda_backend::CudaStorageSlice,
    cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut},
    std::sync::Arc,
};

use super::super::{Described, TensorPlace};
use crate::DType;
use crate::error::AdoptFault;

/// A tensor's storage, which nobody else writes. It stays in place.
pub(super) enum Held<'a> {
    /// Under candle's lock, whose type changed in 0.11.1. Others may read it too.
    Shared(Box<dyn Deref<Target = Storage> + 'a>),
    Cpu(&'a mut CpuStorage),
    #[cfg(feature = "candle-cuda")]
    Cuda(&'a mut CudaStorage),
}

/// The whole of a storage.
struct Whole {
    dtype: DType,
    address: usize,
    len: usize,
    place: TensorPlace,
    #[cfg(feature = "candle-cuda")]
    stream: Option<Arc<CudaStream>>,
}

/// Evaluates `$piece` for the elements `$x` of a storage and their type. Storages of the last types
/// are refused: NCCL lacks them.
macro_rules! elements {
    ($storage:expr, $kind:ident, $x:ident => $piece:expr) => {
        match $storage {
            $kind::U8($x) => (DType::U8, $piece),
            $kind::U32($x) => (DType::U32, $piece),
            $kind::I32($x) => (DType::I32, $piece),
            $kind::I64($x) => (DType::I64, $piece),
            $kind::BF16($x) => (DType::Bf16, $piece),
            $kind::F16($x) => (DType::F16, $piece),
            $kind::F32($x) => (DType::F32, $piece),
            $kind::F64($x) => (DType::F64, $piece),
            $kind::F8E4M3($x) => (DType::F8E4M3, $piece),
            $kind::I16(_) => return Err(unknown("i16")),
            $kind::F6E2M3(_) => return Err(unknown("f6e2m3")),
            $kind::F6E3M2(_) => return Err(unknown("f6e3m2")),
            $kind::F4(_) => return Err(unknown("f4")),
            $kind::F8E8M0(_) => return Err(unknown("f8e8m0")),
        }
    };
}

fn unknown(found: &str) -> AdoptFault {
    AdoptFault::NoSuchType { found: found.to_owned() }
}

impl<'a> Held<'a> {
    pub(super) fn shared(storage: impl Deref<Target = Storage> + 'a) -> Self {
        Self::Shared(Box::new(storage))
    }

    /// The elements of `layout`, checked to be within the storage.
    pub(super) fn describe(&mut self, layout: &Layout) -> Result<Described, AdoptFault> {
        let Whole { dtype, address, len, place, .. } = self.whole()?;
        let strides = layout.stride().iter().map(|&n| isize::try_from(n).unwrap_or(isize::MAX));
        let first = layout.start_offset();
        let mut described = Described {
            library: "candle",
            address,
            dtype,
            shape: layout.dims().to_vec(),
            strides: Some(strides.collect()),
            place,
            writable: true,
        };
        // A program can give a tensor any storage: `Tensor::from_storage` compares nothing.
        let needed = described.checked()?;
        if first.checked_add(needed).is_none_or(|end| end > len) {
            return Err(AdoptFault::Outside { needed, first, len });
        }
        described.address = address + first * dtype.size();
        Ok(described)
    }

    /// On a GPU, cudarc's stream of the memory waits for cudarc's uses on other streams, and a use
    /// there is recorded.
    fn whole(&mut self) -> Result<Whole, AdoptFault> {
        match self {
            Self::Shared(storage) => match &***storage {
                Storage::Cpu(storage) => {
                    let x = elements!(storage, CpuStorage, x => (x.as_ptr().expose_provenance(), x.len()));
                    Ok(Whole::of_cpu(x))
                }
                #[cfg(feature = "candle-cuda")]
                Storage::Cuda(storage) => {
                    Ok(Whole::of_cuda(elements!(&storage.slice, CudaStorageSlice, x => {
                        let stream = x.stream().clone();
                        let (address, _noted) = x.device_ptr(&stream);
                        (address, x.len(), stream.clone())
                    })))
                }
                // Metal's; and, if candle lacks CUDA, none at all.
                _ => Err(AdoptFault::DeviceMemory { ordinal: 0 }),
            },
            Self::Cpu(storage) => {
                let x = elements!(storage, CpuStorage, x => (x.as_mut_ptr().expose_provenance(), x.len()));
                Ok(Whole::of_cpu(x))
            }
            #[cfg(feature = "candle-cuda")]
            Self::Cuda(storage) => {
                Ok(Whole::of_cuda(elements!(&mut storage.slice, CudaStorageSlice, x => {
                    let (stream, len) = (x.stream().clone(), x.len());
                    let (address, _noted) = x.device_ptr_mut(&stream);
                    (address, len, stream.clone())
                })))
            }
        }
    }

    /// The stream by which candle orders uses on a GPU.
    #[cfg(feature = "candle-cuda")]
    pub(super) fn stream(&mut self) -> Option<Arc<CudaStream>> {
        self.whole().ok()?.stream
    }

    /// Orders our uses before later work on cudarc's stream of the memory, as a use there that
    /// others wait for.
    pub(super) fn used(&mut self) {
        #[cfg(feature = "candle-cuda")]
        let _ = self.whole();
    }
}

impl Whole {
    fn of_cpu((dtype, (address, len)): (DType, (usize, usize))) -> Self {
        Self {
            dtype,
            address,
            len,
            place: TensorPlace::OnHost { pinned: false },
            #[cfg(feature = "candle-cuda")]
            stream: None,
        }
    }

    #[cfg(feature = "candle-cuda")]
    fn of_cuda((dtype, (address, len, stream)): (DType, (u64, usize, Arc<CudaStream>))) -> Self {
        let ordinal = u32::try_from(stream.context().ordinal()).unwrap_or(u32::MAX);
        let handle = stream.cu_stream().expose_provenance();
        let place = TensorPlace::OnGpu { ordinal, stream: Some(handle) };
        Self { dtype, address: address as usize, len, place, stream: Some(stream) }
    }
}
