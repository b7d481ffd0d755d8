//! cudarc's memory and streams, beside ours.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use typed_nccl::{Cuda, Device, Result, Stream, Sum};

use crate::common::{connect, ranks};

const LEN: usize = 1 << 20;

/// Two cudarc streams on a GPU. They are made before another rank that shares the GPU can wait for
/// this one in a kernel, as with its first stream cudarc waits for everything that runs on the GPU.
fn theirs<D: Device>(device: &D) -> (Arc<CudaStream>, Arc<CudaStream>) {
    let context = CudaContext::new(device.ordinal() as usize).expect("a GPU");
    (context.new_stream().expect("a stream"), context.new_stream().expect("a stream"))
}

/// A slice of these values. The doubles do not copy within the call.
fn given(stream: &Arc<CudaStream>, value: u32) -> CudaSlice<u32> {
    let values = vec![value; LEN];
    let slice = stream.clone_htod(&values).expect("there is memory");
    stream.synchronize().expect("no fault");
    slice
}

/// A slice's contents. CUDA copies to pageable memory under a lock of the context, and waits there
/// for the stream's earlier work; another rank of the process that shares the GPU would be blocked.
fn got(stream: &Arc<CudaStream>, slice: &CudaSlice<u32>) -> Vec<u32> {
    stream.synchronize().expect("no fault");
    let values = stream.clone_dtoh(slice).expect("copied");
    stream.synchronize().expect("no fault");
    values
}

/// cudarc's work on a slice comes first; without the ordering the sums are wrong.
pub(crate) fn a_slice_that_its_owner_still_writes() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let (stream, other) = theirs(place.device());
        let comm = connect(place, 30)?;
        let ranks = comm.size() as u32;
        for turn in 0..4_u32 {
            let from = given(&stream, turn);
            let mut slice = stream.alloc_zeros::<u32>(LEN).expect("there is memory");
            for _ in 0..200 {
                other.memset_zeros(&mut slice).expect("enqueued");
            }
            other.memcpy_dtod(&from, &mut slice).expect("enqueued");
            let mut x = comm.device().adopt(slice)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            let slice = x.into_inner()?;
            let got = got(&stream, &slice);
            assert!(got.iter().all(|&x| x == ranks * turn), "turn {turn}: {}", got[0]);
        }
        comm.finish()
    })
    .map(drop)
}

/// cudarc's work on a lent slice, including its free, comes after our uses.
pub(crate) fn a_lent_slice_is_used_on_at_once() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let (stream, other) = theirs(place.device());
        let comm = connect(place, 30)?;
        let ranks = comm.size() as u32;
        for turn in 0..4_u32 {
            let mut x = given(&stream, turn);
            let mut y = stream.alloc_zeros::<u32>(LEN).expect("there is memory");
            let mut z = stream.alloc_zeros::<u32>(LEN).expect("there is memory");
            comm.device().lend((&x, &mut y), |(x, y)| {
                (0..20).try_for_each(|_| comm.all_reduce(&*x, y, Sum))
            })?;
            other.memset_zeros(&mut x).expect("enqueued");
            other.memcpy_dtod(&y, &mut z).expect("enqueued");
            drop((x, y));
            let mut again = stream.alloc_zeros::<u32>(LEN).expect("there is memory");
            stream.memset_zeros(&mut again).expect("enqueued");
            let got = got(&stream, &z);
            assert!(got.iter().all(|&z| z == ranks * turn), "turn {turn}: {}", got[0]);
        }
        comm.finish()
    })
    .map(drop)
}

/// Collectives on cudarc's own stream, in one order with cudarc's work there; copies and fills.
pub(crate) fn a_stream_of_cudarc() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let (theirs, _) = theirs(place.device());
        let comm = connect(place, 30)?;
        let device = comm.device().clone();
        let ranks = comm.size() as u64;
        let mut streams = vec![theirs.clone()];
        if theirs.context().ordinal() == 0 {
            // The double has the default stream on one device.
            streams.push(theirs.context().default_stream());
        }
        for (round, stream) in streams.into_iter().enumerate() {
            let ours = Stream::adopt(&device, stream)?;
            let (mut x, mut y) = (device.zeros::<u64>(LEN)?, device.nccl_zeros::<u64>(LEN)?);
            for turn in 1..4 {
                ours.fill(&mut x, turn)?;
                match round {
                    0 => comm.on(&ours).all_reduce_in_place(&mut x, Sum)?,
                    // A single rank.
                    _ => ours.fill(&mut x, ranks * turn)?,
                }
                // On the communicator's stream, so after cudarc's work.
                comm.stream().copy(&x, &mut y)?;
                assert_eq!(y.to_vec()?, vec![ranks * turn; LEN]);
            }
            // 8-byte values whose halves differ.
            ours.fill(&mut y, 7 << 32 | 9)?;
            assert_eq!(y.to_vec()?, vec![7 << 32 | 9; LEN]);
        }
        comm.finish()
    })
    .map(drop)
}
