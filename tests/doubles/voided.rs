//! Work that a communicator's end cancelled: every reader of its data gets an error.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use cudarc::driver::{CudaContext, CudaSlice};
use nccl_sys::Function::{ncclAllReduce, ncclCommAbort, ncclCommRevoke};
use typed_nccl::{
    AnyDevice, Buffer, CommConfig, Communicator, Cuda, Error, Result, Seat, Stream, Sum, tag,
};

use crate::common::{alone, connect, count, handle, says, until};
use crate::scenario::{NEWEST, cuda, nccl, on};

type Gpu = Cuda<AnyDevice>;
type Comm = Communicator<Gpu>;
type Data = Buffer<f32, Gpu>;

tag!(Columns);

/// A thread is inside NCCL with an operation.
static INSIDE: AtomicBool = AtomicBool::new(false);

/// Whether an end is that of the communicator whose streams are held.
static FREES: AtomicBool = AtomicBool::new(true);

/// NCCL's operations are over when it ends their communicator, complete or not.
fn ends_free_streams() {
    nccl().before(|function| match function {
        ncclAllReduce => INSIDE.store(true, Relaxed),
        ncclCommAbort | ncclCommRevoke if FREES.load(Relaxed) => cuda().release_all(),
        _ => {}
    });
}

/// Operations that hang, one per buffer, on alternating streams.
fn hanging(comm: &Comm, streams: &[Stream<Gpu>], buffers: usize) -> Result<Vec<Data>> {
    ends_free_streams();
    for stream in streams {
        cuda().hold(handle(stream)?);
    }
    let enqueue = |at: usize| {
        let mut x = comm.device().zeros::<f32>(8)?;
        comm.on(&streams[at % streams.len()]).all_reduce_in_place(&mut x, Sum)?;
        Ok(x)
    };
    (0..buffers).map(enqueue).collect()
}

fn streams(comm: &Comm, count: usize) -> Result<Vec<Stream<Gpu>>> {
    (0..count).map(|_| comm.device().stream()).collect()
}

/// Each thread reads its own buffer, and none gets data that never came, even if it retries.
fn nobody_reads(data: Vec<Data>) {
    thread::scope(|scope| {
        for x in data {
            scope.spawn(move || {
                for _ in 0..2 {
                    let error = x.to_vec().expect_err("the data never came");
                    assert!(error.is_fatal(), "{error}");
                }
            });
        }
    });
}

fn connect_alone(milliseconds: u64) -> Result<Comm> {
    let place = Seat::local(1).remove(0);
    let config = CommConfig::builder().deadline(std::time::Duration::from_millis(milliseconds));
    Communicator::builder()
        .seat(place)
        .device(Cuda::any(0)?)
        .config(config.build())
        .build()
        .connect()
}

#[test]
fn each_thread_is_told_after_an_abort() {
    on(NEWEST, || {
        let comm = alone()?;
        let streams = streams(&comm, 4)?;
        let data = hanging(&comm, &streams, 4)?;
        drop(comm.abort());
        nobody_reads(data);
        Ok(())
    });
}

#[test]
fn each_thread_is_told_after_a_drop() {
    on(NEWEST, || {
        let comm = alone()?;
        let streams = streams(&comm, 4)?;
        let data = hanging(&comm, &streams, 4)?;
        comm.abort_handle().abort("it has seen enough");
        drop(comm);
        nobody_reads(data);
        Ok(())
    });
}

/// It was dropped while healthy, and is aborted when its deadline passes.
#[test]
fn each_thread_is_told_of_an_end_in_the_background() {
    on(NEWEST, || {
        let comm = connect_alone(2000)?;
        let streams = streams(&comm, 2)?;
        let data = hanging(&comm, &streams, 2)?;
        drop(comm);
        until("it is aborted", || count(ncclCommAbort) == 1);
        nobody_reads(data);
        Ok(())
    });
}

#[test]
fn threads_that_read_of_one_stream_are_told() {
    on(NEWEST, || {
        let comm = alone()?;
        let streams = streams(&comm, 1)?;
        let data = hanging(&comm, &streams, 4)?;
        drop(comm.abort());
        nobody_reads(data);
        Ok(())
    });
}

#[test]
fn who_waits_behind_another_stream_is_told() {
    on(NEWEST, || {
        let comm = alone()?;
        let streams = streams(&comm, 1)?;
        let mut data = hanging(&comm, &streams, 1)?;
        let other = comm.device().stream()?;
        let mut y = comm.device().zeros::<f32>(8)?;
        other.launch((&data[0], &mut y), |_, _| ())?;
        drop(comm.abort());
        data.push(y);
        nobody_reads(data);
        Ok(())
    });
}

/// A thread held up by NCCL is freed from outside, which also ends its work in flight.
#[test]
fn each_thread_is_told_after_a_revocation() {
    on(NEWEST, || {
        let comm = connect_alone(600_000)?;
        let streams = streams(&comm, 2)?;
        let data = hanging(&comm, &streams, 2)?;
        INSIDE.store(false, Relaxed);
        nccl().set_stuck(ncclAllReduce, true);
        let asks = comm.abort_handle();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut x = comm.device().zeros::<f32>(8)?;
                comm.all_reduce_in_place(&mut x, Sum)
            });
            until("it is inside", || INSIDE.load(Relaxed));
            asks.abort("it hangs");
        });
        nobody_reads(data);
        Ok(())
    });
}

/// A child's work in flight ends with its parent if they share resources.
#[test]
fn who_reads_of_a_child_is_told_of_its_parents_end() {
    on(NEWEST, || {
        let config = CommConfig::builder().split_share(true).build();
        let (seat, device) = (Seat::local(1).remove(0), Cuda::any(0)?);
        let builder = Communicator::builder().seat(seat).device(device).config(config);
        let mut comm: Comm = builder.build().connect()?;
        let streams = streams(&comm, 2)?;
        let child = comm.split_shared::<Columns>(0, 0)?;
        ends_free_streams();
        let enqueue = |stream: &Stream<Gpu>| {
            cuda().hold(handle(stream)?);
            let mut x = child.device().zeros::<f32>(8)?;
            child.on(stream).all_reduce_in_place(&mut x, Sum)?;
            Ok::<_, Error>(x)
        };
        let data = streams.iter().map(enqueue).collect::<Result<_>>()?;
        // Its end waits for its work, in the background.
        drop(child);
        drop(comm.abort());
        nobody_reads(data);
        Ok(())
    });
}

#[test]
fn who_reads_a_window_is_told_each_time() {
    on(NEWEST, || {
        nccl().set_rma(true);
        ends_free_streams();
        FREES.store(false, Relaxed);
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 600_000)?;
            let window = comm.window::<f32>(4)?;
            if comm.rank().index() == 0 {
                together.wait();
                comm.abort_because("it has seen enough");
                together.wait();
                return Ok(());
            }
            cuda().hold(handle(comm.stream())?);
            comm.wait_signal(0)?;
            together.wait();
            together.wait();
            FREES.store(true, Relaxed);
            drop(comm);
            for _ in 0..2 {
                window.to_vec().expect_err("what it waits for never came");
                window.local().to_vec().expect_err("what it waits for never came");
            }
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// The owner gets its memory back once it knows.
#[test]
fn owners_are_told_once() {
    on(NEWEST, || {
        let comm = alone()?;
        let theirs = CudaContext::new(0).expect("the double's").new_stream().expect("a stream");
        let streams = streams(&comm, 3)?;
        ends_free_streams();
        let mut adopted = Vec::new();
        for stream in &streams {
            cuda().hold(handle(stream)?);
            let slice = theirs.clone_htod(&[1.0_f32; 8]).expect("there is memory");
            let mut x = comm.device().adopt(slice)?;
            comm.on(stream).all_reduce_in_place(&mut x, Sum)?;
            adopted.push(x);
        }
        drop(comm.abort());
        for x in adopted {
            let failed = x.into_inner().expect_err("the data never came");
            assert!(failed.error.is_fatal(), "{}", failed.error);
            let _: CudaSlice<f32> = failed.value.into_inner()?;
        }
        Ok(())
    });
}

#[test]
fn copies_to_the_host_are_told_once() {
    on(NEWEST, || {
        let comm = alone()?;
        let streams = streams(&comm, 2)?;
        let data = hanging(&comm, &streams, 2)?;
        let download = |(stream, x): (&Stream<Gpu>, &Data)| {
            Ok(stream.download(x, comm.device().pinned::<f32>(8)?)?)
        };
        let copies = streams.iter().zip(&data).map(download).collect::<Result<Vec<_>>>()?;
        drop(comm.abort());
        for copying in copies {
            let failed = copying.wait().expect_err("the data never came");
            failed.value.wait()?;
        }
        Ok(())
    });
}

/// Earlier results are valid, and so is memory written afterwards.
#[test]
fn what_came_can_be_read() {
    on(NEWEST, || {
        let comm = alone()?;
        let streams = streams(&comm, 1)?;
        let mut before = comm.device().from_slice(&[1.0_f32; 8])?;
        comm.on(&streams[0]).all_reduce_in_place(&mut before, Sum)?;
        before.to_vec()?;
        let mut marked = comm.device().from_slice(&[1.0_f32; 8])?;
        comm.on(&streams[0]).all_reduce_in_place(&mut marked, Sum)?;
        let _mark = streams[0].mark()?;
        let mut data = hanging(&comm, &streams, 2)?;
        drop(comm.abort());
        for x in &data {
            x.to_vec().expect_err("the data never came");
        }
        before.to_vec()?;
        marked.to_vec()?;
        data[0].copy_from(&[2.0; 8])?;
        assert_eq!(data[0].to_vec()?, [2.0; 8]);
        streams[0].launch(&mut data[1], |_, _| ())?;
        data[1].to_vec()?;
        Ok(())
    });
}

/// Results seen before are valid, also while their communicator ends.
#[test]
fn what_was_seen_can_be_read_of_a_poisoned_one() {
    on(NEWEST, || {
        let comm = alone()?;
        let streams = streams(&comm, 1)?;
        let mut seen = comm.device().from_slice(&[1.0_f32; 8])?;
        comm.on(&streams[0]).all_reduce_in_place(&mut seen, Sum)?;
        seen.to_vec()?;
        let mut unseen = comm.device().from_slice(&[1.0_f32; 8])?;
        comm.on(&streams[0]).all_reduce_in_place(&mut unseen, Sum)?;
        assert!(comm.abort_handle().abort("enough"));
        comm.health().expect_err("it is to end");
        says(&unseen.to_vec().expect_err("nobody knows"), &["enough"]);
        seen.to_vec()?;
        drop(comm);
        Ok(())
    });
}

/// Ranks that continue without a rank learn what they lost, and their streams carry new work.
#[test]
fn those_who_recover_are_told() {
    on(NEWEST, || {
        ends_free_streams();
        FREES.store(false, Relaxed);
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 20_000)?;
            if comm.rank().index() == 1 {
                together.wait();
                comm.abort_because("it has seen enough");
                together.wait();
                return Ok(());
            }
            let mut x = comm.device().zeros::<f32>(8)?;
            cuda().hold(handle(comm.stream())?);
            comm.all_reduce_in_place(&mut x, Sum)?;
            together.wait();
            together.wait();
            FREES.store(true, Relaxed);
            comm.recover()?;
            for _ in 0..2 {
                x.to_vec().expect_err("the data never came");
            }
            let mut y = comm.device().zeros::<f32>(8)?;
            comm.all_reduce_in_place(&mut y, Sum)?;
            y.to_vec()?;
            comm.finish()
        })
        .map(drop)
    });
}
