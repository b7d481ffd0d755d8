//! Tensors of DLPack, in the order of another library's stream.

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaContext, DevicePtrMut, result};
use typed_nccl::{Cuda, Result, Sum};

use crate::common::{connect, ranks};

#[path = "../dlpack/theirs.rs"]
mod theirs;

use theirs::{named, tensor};

const LEN: usize = 1 << 20;

/// The library's earlier work comes before our uses, and its later work after them; without either
/// ordering the sums are wrong.
pub(crate) fn a_tensor_that_its_library_goes_on_with() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        // Made before another rank that shares the GPU can wait for this one in a kernel, as with
        // its first stream cudarc waits for everything that runs on the GPU.
        let context = CudaContext::new(place.device().ordinal() as usize).expect("a GPU");
        let stream = context.new_stream().expect("a stream");
        let comm = connect(place, 30)?;
        let ranks = comm.size() as u32;
        for turn in 0..4 {
            let values = vec![turn; LEN];
            let from = stream.clone_htod(&values).expect("there is memory");
            let mut slice = stream.alloc_zeros::<u32>(LEN).expect("there is memory");
            let mut seen = stream.alloc_zeros::<u32>(LEN).expect("there is memory");
            for _ in 0..200 {
                stream.memset_zeros(&mut slice).expect("enqueued");
            }
            stream.memcpy_dtod(&from, &mut slice).expect("enqueued");
            let mut x = tensor(slice, named(&stream))?;
            comm.device().lend(&mut x, |x| comm.all_reduce_in_place(x, Sum))?;
            let to = seen.device_ptr_mut(&stream).0;
            let bytes = LEN * size_of::<u32>();
            // SAFETY: both have this many bytes, and stay until the stream is synchronized.
            let copied = unsafe {
                result::memcpy_dtod_async(to, x.address() as CUdeviceptr, bytes, stream.cu_stream())
            };
            copied.expect("enqueued");
            // CUDA copies to pageable memory under a lock of the context, and waits there for the
            // stream's earlier work; another rank that shares the GPU would be blocked.
            stream.synchronize().expect("no fault");
            let seen = stream.clone_dtoh(&seen).expect("copied");
            // The doubles do not copy within a call.
            stream.synchronize().expect("no fault");
            drop(values);
            assert!(seen.iter().all(|&x| x == ranks * turn), "turn {turn}: {}", seen[0]);
        }
        comm.finish()
    })
    .map(drop)
}
