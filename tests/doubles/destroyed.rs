//! Communicators that end while their GPU works for another one. `ncclCommDestroy` waits for the
//! whole GPU, so they are destroyed once it is idle.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use cudarc::driver::CudaContext;
use nccl_sys::Function::{ncclCommAbort, ncclCommDestroy};
use typed_nccl::{Cuda, Error, Result, Seat, Stream, Sum};

use crate::common::{alone, connect, count, handle, until};
use crate::scenario::{NEWEST, cuda, nccl, on, on_saying};

fn live() -> usize {
    nccl().live().communicators
}

#[test]
fn finish_returns_while_another_communicator_is_at_work() {
    on(NEWEST, || {
        let (whole, part) = (alone()?, alone()?);
        let stream = handle(whole.stream())?;
        cuda().hold(stream);
        let mut x = whole.device().zeros::<f32>(8)?;
        whole.all_reduce_in_place(&mut x, Sum)?;
        part.finish()?;
        // It would wait for the stream, and keep others from launching.
        thread::sleep(Duration::from_millis(100));
        assert_eq!((count(ncclCommDestroy), live()), (0, 2));
        cuda().release(stream);
        until("it is destroyed", || live() == 1);
        whole.finish()?;
        assert_eq!((count(ncclCommDestroy), count(ncclCommAbort), live()), (2, 0, 0));
        Ok(())
    });
}

/// Two ranks, each on a GPU of its own, that finish and collect in opposite orders: neither waits
/// inside NCCL for a call that the other has yet to make.
#[test]
fn ranks_finish_one_communicator_before_or_after_a_collective_on_another() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let (rank, device) = (place.rank().index(), Cuda::any(0)?);
            let other =
                Seat::local(1).remove(0).init(if rank == 0 { device } else { Cuda::any(1)? })?;
            let whole = connect(place, 20_000)?;
            let stream = handle(whole.stream())?;
            let mut x = whole.device().zeros::<f32>(8)?;
            if rank == 0 {
                // Like a kernel that waits for rank 1.
                cuda().hold(stream);
                whole.all_reduce_in_place(&mut x, Sum)?;
                other.finish()?;
                whole.barrier()?;
                cuda().release(stream);
            } else {
                other.finish()?;
                whole.barrier()?;
                whole.all_reduce_in_place(&mut x, Sum)?;
            }
            whole.finish()
        })?;
        until("all are destroyed", || live() == 0);
        assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (4, 0));
        Ok(())
    });
}

/// The stream of another library, which ours does not know unless a communicator uses it.
#[test]
fn work_on_an_adopted_stream_counts() {
    on(NEWEST, || {
        let (whole, part) = (alone()?, alone()?);
        let theirs = CudaContext::new(0).expect("the double's");
        let theirs = theirs.new_stream().expect("a stream");
        let adopted = Stream::adopt(whole.device(), theirs)?;
        let raw = handle(&adopted)?;
        let mut x = whole.device().zeros::<f32>(8)?;
        cuda().hold(raw);
        whole.on(&adopted).all_reduce_in_place(&mut x, Sum)?;
        part.finish()?;
        assert_eq!(count(ncclCommDestroy), 0);
        cuda().release(raw);
        until("it is destroyed", || live() == 1);
        whole.finish()
    });
}

/// A dropped communicator does not keep the thread that ends dropped ones.
#[test]
fn a_busy_gpu_does_not_keep_dropped_communicators_of_other_gpus() {
    on(NEWEST, || {
        let (whole, part) = (alone()?, alone()?);
        let elsewhere = Seat::local(1).remove(0).init(Cuda::any(1)?)?;
        let stream = handle(whole.stream())?;
        cuda().hold(stream);
        let mut x = whole.device().zeros::<f32>(8)?;
        whole.all_reduce_in_place(&mut x, Sum)?;
        drop(part);
        // The reaper gets to it first.
        thread::sleep(Duration::from_millis(100));
        drop(elsewhere);
        until("the other GPU's is destroyed", || live() == 2);
        assert_eq!(count(ncclCommDestroy), 1);
        cuda().release(stream);
        until("it is destroyed", || live() == 1);
        whole.finish()
    });
}

/// The stream that a kernel holds from the moment of a destroy, or 0.
static HELD: AtomicU64 = AtomicU64::new(0);

/// A launch comes between the question whether the GPU is idle and the destroy. The driver's lock
/// is held meanwhile, and memory can be returned nevertheless.
#[test]
fn memory_is_returned_while_the_driver_does_not_answer() {
    on(NEWEST, || {
        let (whole, part) = (alone()?, alone()?);
        let device = whole.device().clone();
        let (mut x, y) = (device.zeros::<f32>(8)?, device.zeros::<f32>(8)?);
        whole.all_reduce_in_place(&mut x, Sum)?;
        HELD.store(handle(whole.stream())?, Relaxed);
        nccl().before(|function| {
            if function == ncclCommDestroy {
                let held = HELD.load(Relaxed);
                (held != 0).then(|| cuda().hold(held));
            }
        });
        let waits = |function: &str| {
            let log = cuda().log();
            log.iter().any(|call| call.function == function && call.result.is_none())
        };
        // Its stream has to be asked before the memory is free.
        drop(x);
        thread::scope(|scope| {
            let finishes = scope.spawn(move || part.finish());
            until("it is destroyed", || count(ncclCommDestroy) == 1);
            let allocates = scope.spawn(move || device.zeros::<f32>(1000).map(drop));
            until("the driver keeps the allocation", || waits("cuEventRecord"));
            drop(y);
            assert!(waits("cuEventRecord"), "the lock is still held");
            cuda().release(HELD.swap(0, Relaxed));
            allocates.join().expect("no panic")?;
            finishes.join().expect("no panic")
        })?;
        whole.finish()
    });
}

/// Like the destructors of NCCL: tells what is left.
extern "C" fn tells_what_is_left() {
    println!("{} left, {} destroyed", live(), count(ncclCommDestroy));
}

/// The stream is free a moment after `main` has returned.
#[test]
fn the_end_of_the_process_waits_for_a_destroy_that_was_put_off() {
    on_saying(NEWEST, &["1 left, 1 destroyed"], || {
        // SAFETY: the function takes nothing, stays and does not unwind.
        assert_eq!(unsafe { libc::atexit(tells_what_is_left) }, 0);
        let (whole, part) = (alone()?, alone()?);
        let stream = handle(whole.stream())?;
        cuda().hold(stream);
        let mut x = whole.device().zeros::<f32>(8)?;
        whole.all_reduce_in_place(&mut x, Sum)?;
        part.finish()?;
        // Its owner has no more use for it.
        std::mem::forget((whole, x));
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            cuda().release(stream);
        });
        Ok::<_, Error>(())
    });
}

/// A stream that nothing frees: the process ends nevertheless.
#[test]
fn a_destroy_that_is_put_off_for_ever_does_not_keep_the_process() -> Result<()> {
    let words = ["typed-nccl: the process ends without the destructors of NCCL and CUDA"];
    on_saying(NEWEST, &words, || {
        let (whole, part) = (alone()?, alone()?);
        cuda().hold(handle(whole.stream())?);
        let mut x = whole.device().zeros::<f32>(8)?;
        whole.all_reduce_in_place(&mut x, Sum)?;
        part.finish()?;
        drop(whole.abort());
        Ok(())
    });
    Ok(())
}
