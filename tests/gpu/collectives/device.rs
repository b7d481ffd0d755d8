//! The devices that cases run on: GPUs.

use std::thread;
use std::time::Duration;

use cudarc::driver::{DriverError, result, sys};
use typed_nccl::{
    Buffer, Cuda, DType, DeviceViewMut, NcclVersion, RawStream, Result, Stream, library,
};

use super::elements::Value;
use super::play::Turns;

/// The source of ranks.
pub(crate) type Kind = Cuda;

/// The data types that it reduces: NCCL's.
pub(crate) const DTYPES: &[DType] = DType::ALL.split_at(12).0;

impl<Tag> Turns for Cuda<Tag> {
    /// The host naps before it enqueues anything.
    fn turn<T: Value>(
        stream: &Stream<Self>,
        elements: &mut Buffer<T, Self>,
        nap: Duration,
    ) -> Result<()> {
        thread::sleep(nap);
        stream.launch(elements, |mut elements, on| {
            if elements.len() > 1 {
                turn(&mut elements, on).expect("CUDA copies");
            }
        })
    }
}

/// By way of a copy of the elements, of which there are at least two.
fn turn<T>(elements: &mut DeviceViewMut<'_, T>, on: RawStream<'_>) -> Result<(), DriverError> {
    let (first, all) = (size_of::<T>(), size_of::<T>() * elements.len());
    let rest = all - first;
    let start = elements.as_mut_ptr().expose_provenance() as u64;
    let stream: sys::CUstream = on.as_ptr().cast();
    // SAFETY: the stream is open, and the memory is used on it alone.
    let copy = unsafe { result::malloc_async(stream, all) }?;
    // SAFETY: both are `all` bytes long, and only this launch uses the elements until the stream
    // has passed it.
    unsafe { result::memcpy_dtod_async(copy, start, all, stream) }?;
    // SAFETY: all of the copy except its first element, to every place except the last one.
    unsafe { result::memcpy_dtod_async(start, copy + first as u64, rest, stream) }?;
    // SAFETY: the first element of the copy, to the last place.
    unsafe { result::memcpy_dtod_async(start + rest as u64, copy, first, stream) }?;
    // SAFETY: it came from this stream, and its uses were enqueued before.
    unsafe { result::free_async(copy, stream) }
}

/// Whether NCCL reduces 8-bit floats here.
pub(super) fn reduces_small_floats() -> Result<bool> {
    // Starts the driver.
    Cuda::local()?;
    let is_new = library::version()? >= NcclVersion::new(2, 24, 3);
    Ok(is_new && capability().expect("CUDA knows its devices") >= 9)
}

/// The major compute capability of the first GPU.
fn capability() -> Result<i32, DriverError> {
    let device = result::device::get(0)?;
    let major = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    // SAFETY: the device is CUDA's.
    unsafe { result::device::get_attribute(device, major) }
}
