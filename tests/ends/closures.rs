//! Closures that panic, block, or wait.

use std::panic::{panic_any, resume_unwind};
use std::sync::mpsc::channel;
use std::thread;

use typed_nccl::{Error, Sum};

use super::common::{Busy, SOON, alone, connect, device, impatient, pair, panics, seats, watched};

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if !thread::panicking() {
            // A panic without a value of its own, which is leaked in case it panics too.
            resume_unwind(Box::new(()));
        }
    }
}

#[test]
fn a_panic_whose_value_panics_when_dropped_is_told_like_any_other() {
    watched(|| {
        let comm = alone();
        let work = |(), ()| panic_any(PanicsWhenDropped);
        comm.stream().launch((), work).expect("launched");
        let quiet = !panics(|| {
            let error = comm.sync(comm.stream()).expect_err("it panicked");
            assert!(matches!(error, Error::Panicked(_)), "{error}");
        });
        assert!(quiet);
        comm.finish().expect("told already");
    });
}

#[test]
fn a_panic_is_told_behind_a_change_of_streams() {
    pair(
        |seat| {
            let comm = connect(seat);
            let mut x = comm.device().from_slice(&[1.0_f32]).expect("memory");
            // The stream is dropped before anything waits.
            let stream = comm.device().stream().expect("stream");
            stream.launch(&mut x, |_, ()| panic!("no gradient")).expect("launched");
            drop(stream);
            comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
            let error = x.to_vec().expect_err("it panicked");
            assert!(error.to_string().contains("no gradient"), "{error}");
            comm.finish().expect("told already");
        },
        |seat| {
            let comm = connect(seat);
            let mut x = comm.device().from_slice(&[1.0_f32]).expect("memory");
            comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
            let error = x.to_vec().expect_err("nobody has a gradient");
            assert!(matches!(error, Error::Refused(_)), "{error}");
            assert!(error.to_string().contains("no gradient"), "{error}");
            comm.finish().expect("told already");
        },
    );
}

#[test]
fn a_closure_that_blocks_does_not_block_past_a_waits_deadline() {
    watched(|| {
        let [seat] = seats();
        let comm = impatient(seat, 100);
        // No worker is free: a waiting thread must not run the closure itself.
        let busy = Busy::all_but(comm.device(), 0);
        let (gate, wait) = channel::<()>();
        let work = move |(), ()| assert!(wait.recv().is_err());
        comm.stream().launch((), work).expect("launched");
        let error = comm.sync(comm.stream()).expect_err("it blocks");
        assert!(matches!(error, Error::Timeout(_)), "{error}");
        drop(gate);
        busy.let_go();
    });
}

#[test]
fn a_barrier_in_a_closure_is_refused_on_both_sides() {
    let (said, outcome) = channel();
    pair(
        move |seat| {
            let there = connect(seat).barrier();
            let here: Result<(), Error> = outcome.recv_timeout(SOON).expect("the peer speaks");
            assert!(here.is_ok() || there.is_err(), "refused there, passed here");
        },
        move |seat| {
            let comm = connect(seat);
            let stream = comm.device().stream().expect("stream");
            let work = move |(), ()| said.send(comm.barrier()).expect("the peer listens");
            stream.launch((), work).expect("launched");
            stream.sync().expect("it ran");
        },
    );
}

#[test]
fn a_long_chain_of_broken_communicators_on_one_stream_ends() {
    watched(|| {
        let here = device(0);
        let stream = here.stream().expect("stream");
        let soon = || std::time::Instant::now() + SOON;
        let broken = || {
            let [a, b] = seats();
            let a = a.start(device(0)).expect("start");
            let b = b.start(device(1)).expect("start");
            let a = a.ready().wait_until(soon()).expect("ready");
            drop(b.ready().wait_until(soon()).expect("ready"));
            a
        };
        let comms: Vec<_> = (0..200).map(|_| broken()).collect();
        let (gate, wait) = channel::<()>();
        stream.launch((), move |(), ()| assert!(wait.recv().is_err())).expect("launched");
        let mut x = here.zeros::<f32>(1).expect("memory");
        for comm in &comms {
            comm.on(&stream).all_reduce_in_place(&mut x, Sum).expect("enqueued");
        }
        drop(gate);
        let error = stream.sync().expect_err("nobody is there");
        assert!(error.is_peer_failure(), "{error}");
    });
}

#[test]
fn as_many_closures_run_as_wait_for_each_other() {
    const MANY: usize = 300;
    watched(|| {
        let comm = alone();
        let all = std::sync::Arc::new(std::sync::Barrier::new(MANY));
        let streams: Vec<_> = (0..MANY)
            .map(|_| {
                let (stream, all) = (comm.device().stream().expect("stream"), all.clone());
                stream.launch((), move |(), ()| _ = all.wait()).expect("launched");
                stream
            })
            .collect();
        for stream in streams {
            stream.sync().expect("all of them run");
        }
    });
}
