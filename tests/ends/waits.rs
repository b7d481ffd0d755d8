//! Waits check every communicator that they depend on, however indirectly.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use typed_nccl::{Error, Sum};

use super::common::{SOON, build, connect, impatient, pair, seats};

#[test]
fn the_deadline_of_a_communicator_behind_another_stream_counts() {
    let (end, over) = channel::<()>();
    pair(
        move |seat| {
            let comm = impatient(seat, 200);
            let stream = comm.device().stream().expect("stream");
            let mut x = comm.device().zeros::<f32>(4).expect("memory");
            comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
            stream.launch(&mut x, |x, ()| x[0] = 1.0).expect("launched");
            // Only the other stream is waited for.
            let (tell, told) = channel();
            thread::spawn(move || tell.send(x.to_vec().map(drop)));
            let error =
                told.recv_timeout(SOON).expect("it ends").expect_err("the peer never calls");
            assert!(matches!(error, Error::Timeout(_)), "{error}");
            end.send(()).expect("the peer listens");
        },
        move |seat| {
            let comm = connect(seat);
            over.recv().expect("the peer speaks");
            drop(comm.abort());
        },
    );
}

#[test]
fn the_abort_of_a_communicator_behind_another_stream_ends_the_wait() {
    let (end, over) = channel::<()>();
    pair(
        move |seat| {
            let comm = connect(seat);
            let stream = comm.device().stream().expect("stream");
            let mut x = comm.device().zeros::<f32>(4).expect("memory");
            comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
            stream.launch(&mut x, |x, ()| x[0] = 1.0).expect("launched");
            let (tell, told) = channel();
            thread::spawn(move || tell.send(x.to_vec().map(drop)));
            thread::sleep(Duration::from_millis(20));
            assert!(comm.abort_handle().abort("enough"));
            let error = told.recv_timeout(SOON).expect("it ends").expect_err("aborted");
            assert!(matches!(error, Error::Abort(_)), "{error}");
            end.send(()).expect("the peer listens");
        },
        move |seat| {
            let comm = connect(seat);
            over.recv().expect("the peer speaks");
            drop(comm.abort());
        },
    );
}

#[test]
fn a_wait_of_a_communicator_with_an_endless_deadline_can_be_dropped() {
    let [seat] = seats();
    let comm = build(seat, u64::MAX).connect().expect("init");
    drop(comm);
}

#[test]
fn a_finish_that_timed_out_can_be_tried_again() {
    let (go, wait) = channel::<()>();
    let (finished, peer) = channel();
    pair(
        move |seat| {
            let comm = impatient(seat, 100);
            let failed = comm.try_finish().map(drop).expect_err("the peer is busy");
            assert!(matches!(failed.error, Error::Timeout(_)), "{}", failed.error);
            go.send(()).expect("the peer listens");
            // The peer may take longer than that.
            let mut again = failed.value;
            while let Err(failed) = again.try_finish() {
                assert!(matches!(failed.error, Error::Timeout(_)), "{}", failed.error);
                again = failed.value;
            }
            let theirs: Result<(), Error> = peer.recv().expect("the peer speaks");
            assert!(theirs.is_ok(), "{theirs:?}");
        },
        move |seat| {
            let comm = connect(seat);
            wait.recv().expect("the peer speaks");
            finished.send(comm.finish()).expect("the peer listens");
        },
    );
}

#[test]
fn work_that_one_rank_saw_complete_is_complete_for_all() {
    let completes = |seat| {
        let comm = connect(seat);
        let mut x = comm.device().zeros::<f32>(4).expect("memory");
        comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
        comm.stream().sync().expect("it is complete");
        comm
    };
    // The peer may abort between two looks of a wait.
    for _ in 0..100 {
        pair(move |seat| drop(completes(seat)), move |seat| drop(completes(seat).abort()));
    }
}
