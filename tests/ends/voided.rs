//! Work that a communicator's end left undone: no wait for it presents its data as complete.

use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;

use typed_nccl::{Buffer, Error, Sum};

use super::common::{Comm, Dev, connect, seats, watched};

/// Reads buffers that rank 1 never reduced, each on its own thread, after `end` has ended or kept
/// rank 0's communicator.
fn read_by_threads(streams: usize, end: fn(Comm) -> Option<Comm>) -> Vec<Result<Vec<f32>, Error>> {
    let [a, b] = seats();
    let (mut comm, enqueued) = (None, Barrier::new(2));
    let mut data: Vec<Buffer<f32, Dev>> = Vec::new();
    let mut kept = Vec::new();
    thread::scope(|scope| {
        let lost = scope.spawn(|| {
            let comm = connect(b);
            enqueued.wait();
            drop(comm.abort());
        });
        let own = connect(a);
        kept.extend((0..streams).map(|_| own.device().stream().expect("stream")));
        for at in 0..4 {
            let mut x = own.device().from_slice(&[1.0_f32]).expect("memory");
            own.on(&kept[at % streams]).all_reduce_in_place(&mut x, Sum).expect("enqueued");
            data.push(x);
        }
        enqueued.wait();
        lost.join().expect("it aborts");
        comm = Some(own);
    });
    let _kept = end(comm.expect("connected"));
    thread::scope(|scope| {
        let reads: Vec<_> = data.into_iter().map(|x| scope.spawn(move || x.to_vec())).collect();
        reads.into_iter().map(|read| read.join().expect("no panic")).collect()
    })
}

fn none_is_ok(streams: usize, end: fn(Comm) -> Option<Comm>) {
    watched(move || {
        for read in read_by_threads(streams, end) {
            let error = read.expect_err("the data never came");
            assert!(error.is_fatal(), "{error}");
        }
    });
}

fn dropped(comm: Comm) -> Option<Comm> {
    drop(comm);
    None
}

#[test]
fn each_thread_is_told_that_its_data_did_not_come() {
    none_is_ok(4, Some);
}

#[test]
fn each_thread_is_told_after_a_drop() {
    none_is_ok(4, dropped);
}

#[test]
fn each_thread_is_told_after_an_abort_of_ones_own() {
    none_is_ok(4, |comm| {
        drop(comm.abort());
        None
    });
}

#[test]
fn threads_that_read_of_one_stream_are_told_too() {
    none_is_ok(1, dropped);
}

#[test]
fn who_waits_behind_another_stream_is_told_too() {
    watched(|| {
        let [a, b] = seats();
        let (comm, peer) = thread::scope(|scope| {
            let peer = scope.spawn(|| connect(b));
            (connect(a), peer.join().expect("connected"))
        });
        let other = comm.device().stream().expect("stream");
        let mut x = comm.device().from_slice(&[1.0_f32]).expect("memory");
        let mut y = comm.device().zeros::<f32>(1).expect("memory");
        comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
        other.launch((&x, &mut y), |(x, y), _| y.copy_from_slice(x)).expect("launched");
        drop(peer.abort());
        drop(comm);
        x.to_vec().expect_err("the data never came");
        y.to_vec().expect_err("it was made of what never came");
    });
}

#[test]
fn a_group_that_is_reached_after_the_end_of_all_is_told_of() {
    watched(|| {
        let ([a, b], (open, gate)) = (seats(), channel::<()>());
        let (comm, peer) = thread::scope(|scope| {
            let peer = scope.spawn(|| connect(b));
            (connect(a), peer.join().expect("connected"))
        });
        let streams = [(); 2].map(|()| comm.device().stream().expect("stream"));
        let work = move |(), ()| gate.recv().expect("the gate opens");
        streams[0].launch((), work).expect("launched");
        let data = streams.each_ref().map(|stream| {
            let mut x = comm.device().from_slice(&[1.0_f32]).expect("memory");
            comm.on(stream).all_reduce_in_place(&mut x, Sum).expect("enqueued");
            x
        });
        drop(peer.abort());
        drop(comm);
        data[1].to_vec().expect_err("it waits for no turn");
        open.send(()).expect("the closure listens");
        for x in &data {
            x.to_vec().expect_err("the data never came");
        }
    });
}

#[test]
fn what_is_written_over_can_be_read() {
    watched(|| {
        let [a, b] = seats();
        let (comm, peer) = thread::scope(|scope| {
            let peer = scope.spawn(|| connect(b));
            (connect(a), peer.join().expect("connected"))
        });
        let mut x = comm.device().from_slice(&[1.0_f32]).expect("memory");
        comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
        drop(peer.abort());
        drop(comm.abort());
        x.to_vec().expect_err("the data never came");
        x.copy_from(&[2.0]).expect("nothing uses it");
        assert_eq!(x.to_vec().expect("it was written"), [2.0]);
    });
}
