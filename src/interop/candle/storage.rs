//! Finds the elements of a tensor in candle's storage.

use std::ops::Deref;

use candle_core::backend::{BackendDevice, BackendStorage};
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
    SharedCpu(&'a CpuStorage),
    Cpu(&'a mut CpuStorage),
    #[cfg(feature = "candle-cuda")]
    SharedCuda(&'a CudaStorage),
    #[cfg(feature = "candle-cuda")]
    Cuda(&'a mut CudaStorage),
}

/// The storage that an operation of candle's is given: of the CPU, or of a GPU. Sealed.
///
/// See the example of [`storage`](super::storage).
pub trait OperandStorage:
    BackendStorage<Device: BackendDevice<Storage = Self>> + sealed::Sealed
{
    #[doc(hidden)]
    fn held(&self) -> sealed::Whole<'_>;

    #[doc(hidden)]
    fn held_mut(&mut self) -> sealed::Whole<'_>;
}

mod sealed {
    /// Hides what it holds.
    pub struct Whole<'a>(pub(super) super::Held<'a>);

    pub trait Sealed {}
    impl Sealed for candle_core::CpuStorage {}
    #[cfg(feature = "candle-cuda")]
    impl Sealed for candle_core::CudaStorage {}
}

impl OperandStorage for CpuStorage {
    fn held(&self) -> sealed::Whole<'_> {
        sealed::Whole(Held::SharedCpu(self))
    }

    fn held_mut(&mut self) -> sealed::Whole<'_> {
        sealed::Whole(Held::Cpu(self))
    }
}

#[cfg(feature = "candle-cuda")]
impl OperandStorage for CudaStorage {
    fn held(&self) -> sealed::Whole<'_> {
        sealed::Whole(Held::SharedCuda(self))
    }

    fn held_mut(&mut self) -> sealed::Whole<'_> {
        sealed::Whole(Held::Cuda(self))
    }
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
    pub(super) fn of(storage: &'a impl OperandStorage) -> Self {
        storage.held().0
    }

    pub(super) fn of_mut(storage: &'a mut impl OperandStorage) -> Self {
        storage.held_mut().0
    }

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
                Storage::Cpu(storage) => Whole::of_cpu(storage),
                #[cfg(feature = "candle-cuda")]
                Storage::Cuda(storage) => Whole::of_cuda(storage),
                // Metal's; and, if candle lacks CUDA, none at all.
                _ => Err(AdoptFault::DeviceMemory { ordinal: 0 }),
            },
            Self::SharedCpu(storage) => Whole::of_cpu(storage),
            Self::Cpu(storage) => {
                let x = elements!(storage, CpuStorage, x => (x.as_mut_ptr().expose_provenance(), x.len()));
                Ok(Whole::on_cpu(x))
            }
            #[cfg(feature = "candle-cuda")]
            Self::SharedCuda(storage) => Whole::of_cuda(storage),
            #[cfg(feature = "candle-cuda")]
            Self::Cuda(storage) => {
                Ok(Whole::on_cuda(elements!(&mut storage.slice, CudaStorageSlice, x => {
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
    fn of_cpu(storage: &CpuStorage) -> Result<Self, AdoptFault> {
        let x = elements!(storage, CpuStorage, x => (x.as_ptr().expose_provenance(), x.len()));
        Ok(Self::on_cpu(x))
    }

    #[cfg(feature = "candle-cuda")]
    fn of_cuda(storage: &CudaStorage) -> Result<Self, AdoptFault> {
        Ok(Self::on_cuda(elements!(&storage.slice, CudaStorageSlice, x => {
            let stream = x.stream().clone();
            let (address, _noted) = x.device_ptr(&stream);
            (address, x.len(), stream.clone())
        })))
    }

    fn on_cpu((dtype, (address, len)): (DType, (usize, usize))) -> Self {
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
    fn on_cuda((dtype, (address, len, stream)): (DType, (u64, usize, Arc<CudaStream>))) -> Self {
        let ordinal = u32::try_from(stream.context().ordinal()).unwrap_or(u32::MAX);
        let handle = stream.cu_stream().expose_provenance();
        let place = TensorPlace::OnGpu { ordinal, stream: Some(handle) };
        Self { dtype, address: address as usize, len, place, stream: Some(stream) }
    }
}
