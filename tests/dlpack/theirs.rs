//! Memory of cudarc's, as another library's tensor.

use std::num::NonZeroUsize;
use std::ptr::{NonNull, null_mut, with_exposed_provenance_mut};
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use typed_nccl::Result;
use typed_nccl::interop::Tensor;
use typed_nccl::interop::dlpack::{
    self, ConsumerStream, DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    Managed,
};

/// dlpack.h's `kDLUInt` of 32 bits.
const U32: DLDataType = DLDataType { code: 1, bits: 32, lanes: 1 };

struct Theirs {
    tensor: DLManagedTensorVersioned,
    shape: i64,
    _slice: CudaSlice<u32>,
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor lives until this returns.
    let whole = unsafe { (*tensor).manager_ctx }.cast::<Theirs>();
    // SAFETY: `tensor` leaked it.
    drop(unsafe { Box::from_raw(whole) });
}

/// A tensor of the slice's elements, used on a stream.
pub(crate) fn tensor(slice: CudaSlice<u32>, stream: ConsumerStream) -> Result<Tensor<Managed>> {
    let device_id = i32::try_from(slice.context().ordinal()).expect("a GPU");
    let address = slice.device_ptr(slice.stream()).0;
    let dl_tensor = DLTensor {
        data: with_exposed_provenance_mut(address as usize),
        device: DLDevice { device_type: 2, device_id },
        ndim: 1,
        dtype: U32,
        shape: null_mut(),
        strides: null_mut(),
        byte_offset: 0,
    };
    let tensor = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 0 },
        manager_ctx: null_mut(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    };
    let shape = i64::try_from(slice.len()).expect("so many");
    let whole = Box::into_raw(Box::new(Theirs { tensor, shape, _slice: slice }));
    // SAFETY: it was just made, and nothing else has it.
    let theirs = unsafe { &mut *whole };
    theirs.tensor.dl_tensor.shape = &raw mut theirs.shape;
    theirs.tensor.manager_ctx = whole.cast();
    let tensor = NonNull::from(&mut theirs.tensor);
    // SAFETY: it is the test's, and so is the stream.
    unsafe { dlpack::import_on(tensor, stream) }
}

/// The stream in a consumer's terms.
pub(crate) fn named(stream: &Arc<CudaStream>) -> ConsumerStream {
    let handle = NonZeroUsize::new(stream.cu_stream().addr());
    handle.map_or(ConsumerStream::LEGACY, ConsumerStream::Handle)
}
