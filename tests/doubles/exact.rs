//! Exact sums: the memory that NCCL is given, and how much is taken between.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use nccl_sys::Function::{ncclAllGather, ncclSend};
use typed_nccl::{AnyDevice, CommConfig, Communicator, Cuda, Error, Result, Seat, Sum};

use crate::common::{calls, clear, handle};
use crate::scenario::{NEWEST, cuda, on};

type Comm = Communicator<Cuda<AnyDevice>>;

/// Two ranks.
fn both(play: impl Fn(Comm) -> Result<()> + Sync) {
    let rank = |seat: Seat| {
        let device = Cuda::any(seat.rank().index() as u32)?;
        let config = CommConfig::builder().deadline(Duration::from_secs(20)).build();
        play(Communicator::builder().seat(seat).device(device).config(config).build().connect()?)
    };
    thread::scope(|scope| {
        let spawn = |seat| scope.spawn(move || rank(seat));
        let threads: Vec<_> = Seat::local(2).into_iter().map(spawn).collect();
        for thread in threads {
            thread.join().expect("no panic").expect("it does well");
        }
    });
}

/// The ranges that the driver allocated.
fn allocated() -> Vec<(u64, u64)> {
    let log = cuda().log();
    let made = log.iter().filter(|call| call.function == "cuMemAlloc_v2");
    made.filter_map(|call| Some((call.gives?, call.argument("bytesize")))).collect()
}

/// In a graph NCCL registers memory of its own allocator by itself, and a message whose sides
/// differ never arrives.
#[test]
fn a_graph_sends_from_no_memory_of_nccls() {
    on(NEWEST, || {
        both(|mut comm| {
            let mut x = comm.device().nccl_zeros::<f32>(100_000)?;
            let graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum.exact()))?;
            comm.barrier()?;
            drop(graph);
            comm.finish()
        });
        let plain = allocated();
        let sent = calls(ncclSend);
        assert_eq!(sent.len(), 2, "a piece of each rank");
        for call in sent {
            let from = call.pointer("sendbuff") as u64;
            let is_plain = plain.iter().any(|(start, len)| (*start..start + len).contains(&from));
            assert!(is_plain, "{from:x} is no memory of the driver's");
        }
        Ok::<_, Error>(())
    });
}

/// However long the message.
#[test]
fn memory_between_has_a_limit() {
    on(NEWEST, || {
        let together = Barrier::new(2);
        both(|mut comm| {
            let mut x = comm.device().zeros::<f32>((80 << 20) / 4 + 1)?;
            if together.wait().is_leader() {
                clear();
            }
            together.wait();
            // A graph that is not launched, as the doubles add slowly.
            let graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum.exact()))?;
            comm.barrier()?;
            drop(graph);
            comm.finish()
        });
        let most = allocated().into_iter().map(|(_, bytes)| bytes).max();
        assert!(most.is_some_and(|most| most <= 64 << 20), "{most:?}");
        assert_eq!((calls(ncclSend).len(), calls(ncclAllGather).len()), (6, 6), "three chunks");
        Ok::<_, Error>(())
    });
}

/// A second stream waits until the first one no longer needs the memory between.
#[test]
fn uses_of_the_memory_between_follow_each_other() {
    on(NEWEST, || {
        let (together, waits) = (Barrier::new(2), AtomicUsize::new(0));
        both(|comm| {
            let device = comm.device().clone();
            let (first, second) = (device.stream()?, device.stream()?);
            let (mut x, mut y) = (device.zeros::<f32>(100)?, device.zeros::<f32>(100)?);
            comm.on(&first).all_reduce_in_place(&mut x, Sum.exact())?;
            comm.on(&second).all_reduce_in_place(&mut y, Sum.exact())?;
            together.wait();
            let is_wait = |call: &&fake_cuda::Call| {
                call.function == "cuStreamWaitEvent"
                    && handle(&second).is_ok_and(|second| call.argument("hStream") == second)
            };
            waits.fetch_add(cuda().log().iter().filter(is_wait).count(), Relaxed);
            together.wait();
            comm.finish()
        });
        assert_eq!(waits.into_inner(), 2, "once on each rank");
        Ok::<_, Error>(())
    });
}
