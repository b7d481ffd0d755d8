//! Managed tensors of our memory.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use dlpack_rs::ffi::{DLDevice, DLDeviceType as Kind, DLTensor};

use super::abi::ManagedTensor;
use super::{ConsumerStream, Layout, dtype};
use crate::error::{BadLength, Error, Failed, Site, Unsupported};
use crate::interop::Exported;
use crate::interop::export::{hand_over, may_leave};
use crate::memory::Allocation;
use crate::{Buffer, DType, Device, DynBuffer, Element, Readable, Result};

/// A buffer that can be exported: [`Buffer`] or [`DynBuffer`], of any kind of memory. Sealed.
///
/// See the example of [`export`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be exported",
    label = "no buffer that owns its memory",
    note = "a `Buffer` or a `DynBuffer` is exported as a whole; the tensor keeps its memory"
)]
pub trait Exportable: sealed::Sealed {
    /// The device of its elements.
    type Device: Device;

    /// Its memory, element type and length.
    #[doc(hidden)]
    fn whole(&self) -> (&Arc<Allocation<BackendOf<Self>>>, usize, DType);
}

impl<T: Element, D: Device, M> Exportable for Buffer<T, D, M> {
    type Device = D;

    fn whole(&self) -> (&Arc<Allocation<D::Backend>>, usize, DType) {
        (self.allocation(), self.len(), T::DTYPE)
    }
}

impl<D: Device, M> Exportable for DynBuffer<D, M> {
    type Device = D;

    fn whole(&self) -> (&Arc<Allocation<D::Backend>>, usize, DType) {
        (self.place().0, self.len(), self.dtype())
    }
}

/// The backend of a buffer.
type BackendOf<B> = <<B as Exportable>::Device as Device>::Backend;

mod sealed {
    use crate::{Buffer, Device, DynBuffer};

    pub trait Sealed {}
    impl<T, D: Device, M> Sealed for Buffer<T, D, M> {}
    impl<D: Device, M> Sealed for DynBuffer<D, M> {}
}

/// A buffer as a tensor for other libraries, made by [`export`]. [`to_raw`](Self::to_raw) hands it
/// to any number of consumers.
///
/// See the example of [`export`].
pub struct Export<B> {
    buffer: B,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Gives a buffer a shape, for other libraries. Nothing is copied.
///
/// ```
/// # use typed_nccl::{Host, Result};
/// # use typed_nccl::interop::dlpack::{self, DLManagedTensorVersioned, Layout};
/// # fn main() -> Result<()> {
/// let device = Host::local()?;
/// let x = device.from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let raw = dlpack::export(x, &[2, 3], Layout::C)?.to_raw::<DLManagedTensorVersioned>()?;
/// // A consumer calls its deleter; here it comes back as a tensor.
/// // SAFETY: nobody else has it.
/// let tensor = unsafe { dlpack::import(raw) }?;
/// assert_eq!(tensor.shape(), [2, 3]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// With the buffer: [`Error::BadLength`] if the tensor does not have all of its elements (C and
/// Fortran order), or has elements outside the buffer or one twice (strides).
#[track_caller]
pub fn export<B: Exportable>(
    buffer: B,
    shape: &[usize],
    layout: Layout<'_>,
) -> Result<Export<B>, Failed<B>> {
    let site = Site::caller();
    let (_, len, dtype) = buffer.whole();
    if let DType::Plain(plain) = dtype {
        let error = Error::from(Unsupported {
            what: format!("DLPack's name of {plain}"),
            needs: "a data type that DLPack has".to_owned(),
            found: "plain data of this program: export its bytes as u8".to_owned(),
        });
        return Err(Failed { error, value: buffer });
    }
    let strides = layout.strides(shape, len);
    match (signed(shape), strides.and_then(|strides| signed(&strides))) {
        (Some(shape), Some(strides)) => Ok(Export { buffer, shape, strides }),
        _ => {
            let needed = shape.iter().fold(1, |count: usize, &n| count.saturating_mul(n));
            let (lengths, because) = ((len, needed), format!("shape {shape:?}, {layout:?}"));
            let bad = BadLength::new("dlpack::export", "exported", dtype, lengths, because, site);
            Err(Failed { error: bad.into(), value: buffer })
        }
    }
}

fn signed(numbers: &[usize]) -> Option<Vec<i64>> {
    numbers.iter().map(|&n| i64::try_from(n).ok()).collect()
}

impl<B: Exportable> Export<B> {
    /// A managed tensor of either form. The consumer owns it, and calls its deleter on any thread.
    /// The memory is freed once nothing refers to it: this value, its tensors, and everything made
    /// from them here. **The host waits** for all work enqueued on the buffer.
    ///
    /// # Errors
    /// A failure of the enqueued work, reported once; a passed deadline; an abort.
    #[track_caller]
    pub fn to_raw<F: ManagedTensor>(&self) -> Result<NonNull<F>> {
        self.wait()?;
        self.share()
    }

    /// [`to_raw`](Self::to_raw) for a consumer that uses the tensor on a stream of the buffer's GPU
    /// (`__dlpack__(stream=..)`): that stream waits for the work enqueued on the buffer, and the
    /// host does not.
    ///
    /// # Errors
    /// An error that CUDA reports; a stream together with host memory; as
    /// [`Tensor::export`](crate::interop::Tensor::export), memory in a graph or a window.
    ///
    /// # Safety
    /// It is a stream of the primary context of the buffer's GPU.
    #[track_caller]
    pub unsafe fn to_raw_on<F: ManagedTensor>(&self, stream: ConsumerStream) -> Result<NonNull<F>> {
        // SAFETY: the caller's promise.
        unsafe { self.order_before(stream) }?;
        self.share()
    }

    /// Blocks the host until all work enqueued on the buffer is over.
    #[track_caller]
    pub(in crate::interop) fn wait(&self) -> Result<()> {
        // SAFETY: no stream is named.
        unsafe { hand_over(self.buffer.whole().0, None, Site::caller()) }
    }

    /// Makes a consumer's stream wait for the work enqueued on the buffer.
    ///
    /// # Safety
    /// It is a stream of the primary context of the buffer's GPU.
    pub(in crate::interop) unsafe fn order_before(&self, stream: ConsumerStream) -> Result<()> {
        let (allocation, site) = (self.buffer.whole().0, Site::caller());
        let Some(handle) = stream.handle() else {
            may_leave(allocation, site)?;
            allocation.export();
            return Ok(());
        };
        // SAFETY: the caller's promise.
        unsafe { hand_over(allocation, Some(handle), site) }
    }

    /// Makes another managed tensor over the buffer.
    pub(in crate::interop) fn share<F: ManagedTensor>(&self) -> Result<NonNull<F>> {
        let Outside { address, device, dtype, mut shape, mut strides } = self.outside()?;
        let (allocation, len, _) = self.buffer.whole();
        let memory = Exported::new(allocation.clone(), len * dtype.size());
        let tensor = DLTensor {
            data: std::ptr::with_exposed_provenance_mut(address),
            device,
            // A shape is a slice of numbers that fits in memory.
            ndim: shape.len() as i32,
            dtype: dtype::to_dlpack(dtype),
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let tensor = F::new(tensor, delete::<F>);
        Ok(NonNull::from(Box::leak(Box::new(Ours {
            tensor,
            _shape: shape,
            _strides: strides,
            _memory: memory,
        })))
        .cast())
    }

    /// The buffer as other libraries see it.
    pub(in crate::interop) fn outside(&self) -> Result<Outside> {
        let (allocation, len, dtype) = self.buffer.whole();
        let device = device::<B::Device>(allocation.ordinal())?;
        let address = match len {
            0 => 0,
            _ => allocation.address().expose_provenance(),
        };
        let (shape, strides) = (self.shape.clone(), self.strides.clone());
        Ok(Outside { address, device, dtype, shape, strides })
    }
}

/// The description of a buffer for another library.
pub(in crate::interop) struct Outside {
    pub(in crate::interop) address: usize,
    pub(in crate::interop) device: DLDevice,
    pub(in crate::interop) dtype: DType,
    pub(in crate::interop) shape: Vec<i64>,
    /// In elements.
    pub(in crate::interop) strides: Vec<i64>,
}

/// A managed tensor, and the arrays that it points to.
#[repr(C)]
struct Ours<F> {
    tensor: F,
    _shape: Vec<i64>,
    _strides: Vec<i64>,
    _memory: Exported,
}

/// The deleter. A panic would end the process.
///
/// # Safety
/// The tensor was made by `share`, or is null, and is not deleted again.
unsafe extern "C" fn delete<F>(tensor: *mut F) {
    if !tensor.is_null() {
        // SAFETY: the caller's promise: it is the beginning of a box that was leaked.
        drop(unsafe { Box::from_raw(tensor.cast::<Ours<F>>()) });
    }
}

fn device<D: Device>(ordinal: u32) -> Result<DLDevice> {
    match D::KIND {
        "host" => Ok(DLDevice { device_type: Kind::kDLCPU, device_id: 0 }),
        "cuda" => Ok(DLDevice { device_type: Kind::kDLCUDA, device_id: ordinal.cast_signed() }),
        kind => Err(Error::from(Unsupported {
            what: "a tensor for another library".to_owned(),
            needs: "memory of the host or of a GPU".to_owned(),
            found: format!("memory of `{kind}`"),
        })),
    }
}

impl<B: fmt::Debug> fmt::Debug for Export<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffer, shape, strides } = self;
        write!(f, "Export of {buffer:?}, shape {shape:?}, strides {strides:?}")
    }
}
