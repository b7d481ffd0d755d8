//! Managed tensors of other libraries.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use dlpack_rs::ffi::{DLDevice, DLDeviceType as Kind, DLTensor};

use super::abi::ManagedTensor;
use super::{ConsumerStream, dtype};
use crate::Result;
use crate::error::{AdoptFault, NotAdoptable, Site};
use crate::interop::{Described, Tensor, TensorPlace};

const READ_ONLY: u64 = dlpack_rs::ffi::DLPACK_FLAG_BITMASK_READ_ONLY;

/// Another library's managed tensor. Calls its deleter on drop, on whatever thread.
///
/// See the example of [`export`](super::export).
pub struct Managed {
    tensor: NonNull<c_void>,
    delete: unsafe fn(NonNull<c_void>),
}

// SAFETY: the caller of `import` promised that any thread may call the deleter; nothing else is
// done with the tensor.
unsafe impl Send for Managed {}

impl Managed {
    /// # Safety
    /// The tensor is valid; its deleter was not called, and nobody else calls it.
    pub(in crate::interop) unsafe fn new<F: ManagedTensor>(tensor: NonNull<F>) -> Self {
        Self { tensor: tensor.cast(), delete: delete::<F> }
    }
}

/// # Safety
/// A valid managed tensor of this form, whose deleter has not been called.
unsafe fn delete<F: ManagedTensor>(tensor: NonNull<c_void>) {
    let tensor = tensor.cast::<F>();
    // SAFETY: the caller's promise.
    let head = unsafe { F::head(tensor) };
    if let Some(deleter) = head.deleter {
        // SAFETY: the caller's promise; it is the tensor's own.
        unsafe { deleter(tensor.as_ptr()) }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: the caller of `new` promised that the tensor is valid, and only this calls its
        // deleter.
        unsafe { (self.delete)(self.tensor) }
    }
}

impl fmt::Debug for Managed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Managed")
    }
}

/// Takes a managed tensor of another library. Its deleter is called once: after the tensor and the
/// buffer made from it are dropped and nothing uses the elements any more, or at once on an error.
/// A null deleter is not called.
///
/// CPU and page-locked memory are host memory; CUDA memory, including managed memory, belongs to
/// its GPU. Null strides mean C order, which lending and adopting require.
///
/// # Errors
/// [`Error::NotAdoptable`](crate::Error::NotAdoptable): a major version other than 1; a data type
/// or a device that NCCL does not support; elements that are not dense; no elements; a null or
/// misaligned address.
///
/// # Safety
/// * It is a managed tensor as defined by dlpack.h, owned by the caller: its deleter was not
///   called, and nobody else calls it. A Python capsule has been renamed.
/// * Its deleter may be called on any thread, and does not unwind.
/// * Until that is called the elements are present and initialised. While they are lent, or a
///   buffer is made of them, nobody else writes them, or reads elements that are written here.
/// * No enqueued work on a GPU uses them; [`import_on`] takes a stream for that.
#[track_caller]
pub unsafe fn import<F: ManagedTensor>(tensor: NonNull<F>) -> Result<Tensor<Managed>> {
    // SAFETY: the caller's promise.
    unsafe { import_on(tensor, ConsumerStream::Unordered) }
}

/// [`import`] for a tensor of a GPU that is used on a stream: the stream that was passed to
/// `__dlpack__(stream=..)`. Its earlier work comes before the first use here; after a loan, its
/// later work comes after the last one.
///
/// # Errors
/// As [`import`]; a stream together with host memory.
///
/// # Safety
/// As [`import`], except that work enqueued on that stream may use the elements. The stream belongs
/// to the primary context of the tensor's GPU, and lives until the deleter is called.
#[track_caller]
pub unsafe fn import_on<F: ManagedTensor>(
    tensor: NonNull<F>,
    stream: ConsumerStream,
) -> Result<Tensor<Managed>> {
    let site = Site::caller();
    // SAFETY: the caller's promise. Whatever happens, the deleter is called.
    let owner = unsafe { Managed::new(tensor) };
    // SAFETY: the caller's promise.
    let head = unsafe { F::head(tensor) };
    let described = match head.unknown_version() {
        Some(version) => {
            Err(AdoptFault::DlpackVersion { major: version.major, minor: version.minor })
        }
        None => {
            // SAFETY: the caller's promise, and the version is known.
            let whole = unsafe { F::read(tensor) };
            // SAFETY: the caller's promise.
            unsafe { describe(whole.tensor(), stream, head.flags & READ_ONLY == 0) }
        }
    };
    let refused = |fault| NotAdoptable::new("dlpack::import", fault, site).of("DLPack");
    let described = described.map_err(refused)?;
    // SAFETY: the caller's promise; the owner calls the deleter.
    unsafe { Tensor::new(described, owner) }
}

/// # Safety
/// The shape and the strides are null, or have one number per axis.
unsafe fn describe(
    tensor: &DLTensor,
    stream: ConsumerStream,
    writable: bool,
) -> Result<Described, AdoptFault> {
    let &DLTensor { data, device, ndim, dtype: found, byte_offset, .. } = tensor;
    let place = place(device, stream)?;
    let dtype = dtype::from_dlpack(found)
        .ok_or_else(|| AdoptFault::NoSuchType { found: dtype::name(found) })?;
    let no_tensor = |found: String| AdoptFault::NotATensor { found };
    let axes =
        usize::try_from(ndim).map_err(|_| no_tensor(format!("a description of {ndim} axes")))?;
    // SAFETY: the caller's promise.
    let shape = unsafe { numbers(tensor.shape, axes) };
    let shape =
        shape.ok_or_else(|| no_tensor(format!("a description of {axes} axes, without a shape")))?;
    let shape = shape.iter().map(|&n| usize::try_from(n)).collect::<std::result::Result<_, _>>();
    let shape =
        shape.map_err(|_| no_tensor("a description of an axis of less than 0".to_owned()))?;
    // SAFETY: the caller's promise.
    let strides = unsafe { numbers(tensor.strides, axes) };
    let strides = strides.map(|all| all.iter().map(|&stride| stride as isize).collect());
    let offset = usize::try_from(byte_offset).ok();
    let address = offset.and_then(|offset| data.expose_provenance().checked_add(offset));
    // Null stays null: an offset from null is no address either.
    let address = if data.is_null() { 0 } else { address.ok_or(AdoptFault::TooLong)? };
    Ok(Described { library: "DLPack", address, dtype, shape, strides, place, writable })
}

/// # Safety
/// There are `count` numbers, unless the pointer is null.
unsafe fn numbers<'n>(start: *const i64, count: usize) -> Option<&'n [i64]> {
    match count {
        0 => Some(&[]),
        _ if start.is_null() => None,
        // SAFETY: the caller's promise.
        _ => Some(unsafe { std::slice::from_raw_parts(start, count) }),
    }
}

fn place(device: DLDevice, stream: ConsumerStream) -> Result<TensorPlace, AdoptFault> {
    let DLDevice { device_type, device_id } = device;
    let elsewhere = || AdoptFault::NoSuchDevice { found: device_name(device) };
    match device_type {
        Kind::kDLCPU | Kind::kDLCUDAHost if stream.handle().is_some() => {
            Err(AdoptFault::HostStream)
        }
        Kind::kDLCPU => Ok(TensorPlace::OnHost { pinned: false }),
        Kind::kDLCUDAHost => Ok(TensorPlace::OnHost { pinned: true }),
        Kind::kDLCUDA | Kind::kDLCUDAManaged => {
            let ordinal = u32::try_from(device_id).map_err(|_| elsewhere())?;
            Ok(TensorPlace::OnGpu { ordinal, stream: stream.handle() })
        }
        _ => Err(elsewhere()),
    }
}

/// For messages: `GPU 1 of ROCm`.
fn device_name(DLDevice { device_type, device_id }: DLDevice) -> String {
    let kind = match device_type {
        Kind::kDLCUDA | Kind::kDLCUDAManaged => "CUDA",
        Kind::kDLOpenCL => "OpenCL",
        Kind::kDLVulkan => "Vulkan",
        Kind::kDLMetal => "Metal",
        Kind::kDLVPI => "VPI",
        Kind::kDLROCM => "ROCm",
        Kind::kDLROCMHost => "ROCm's page-locked memory",
        Kind::kDLExtDev => "an extension",
        Kind::kDLOneAPI => "oneAPI",
        Kind::kDLWebGPU => "WebGPU",
        Kind::kDLHexagon => "Hexagon",
        Kind::kDLMAIA => "MAIA",
        Kind::kDLTrn => "Trainium",
        Kind::kDLTPU | Kind::kDLTPUHost => "TPU",
        _ => return format!("device {device_id} of DLPack's kind {device_type}"),
    };
    format!("device {device_id} of {kind}")
}
