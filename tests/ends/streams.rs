//! Streams that outlive communicators.

use std::sync::mpsc::channel;

use typed_nccl::Sum;

use super::common::{connect, pair, seats};

#[test]
fn an_error_of_a_dead_communicator_is_told_at_most_once_on_a_stream_that_lives_on() {
    let (enqueued, wait) = channel::<()>();
    let (aborted, gone) = channel::<()>();
    let [again, peer_again] = seats();
    pair(
        move |seat| {
            let comm = connect(seat);
            let stream = comm.device().stream().expect("stream");
            let mut x = comm.device().zeros::<f32>(1).expect("memory");
            comm.on(&stream).all_reduce_in_place(&mut x, Sum).expect("enqueued");
            enqueued.send(()).expect("the peer listens");
            gone.recv().expect("the peer speaks");
            assert!(comm.health().expect_err("told").is_peer_failure());
            drop(comm.abort());
            let comm = connect(again);
            let mut x = comm.device().from_slice(&[1.0_f32]).expect("memory");
            let read = |_| {
                comm.on(&stream).all_reduce_in_place(&mut x, Sum).expect("enqueued");
                x.to_vec().err()
            };
            let errors: Vec<_> = (0..5).filter_map(read).collect();
            assert!(errors.len() <= 1, "{errors:?}");
            comm.finish().expect("finish");
        },
        move |seat| {
            let comm = connect(seat);
            wait.recv().expect("the peer speaks");
            drop(comm.abort());
            aborted.send(()).expect("the peer listens");
            let comm = connect(peer_again);
            let mut x = comm.device().from_slice(&[1.0_f32]).expect("memory");
            for _ in 0..5 {
                comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
                x.to_vec().expect("all is well");
            }
            comm.finish().expect("finish");
        },
    );
}
