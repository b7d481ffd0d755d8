//! Buffers and streams that are dropped while an operation holds them, so that the last handle is
//! dropped by whichever thread looks for work.

use typed_nccl::Sum;

use super::common::{Busy, alone, watched};

/// Large enough to be moved by workers.
const LARGE: usize = 1 << 19;

#[test]
fn a_buffer_and_its_stream_may_go_before_their_operation() {
    watched(|| {
        for but in [1, 0] {
            let comm = alone();
            // One worker at most, so that the same thread finds the work and its remains.
            let busy = Busy::all_but(comm.device(), but);
            for _ in 0..10 {
                let stream = comm.device().stream().expect("stream");
                let mut x = comm.device().zeros::<f32>(LARGE).expect("memory");
                comm.on(&stream).all_reduce_in_place(&mut x, Sum).expect("enqueued");
                drop(x);
                drop(stream);
            }
            comm.finish().expect("finish");
            busy.let_go();
        }
    });
}

#[test]
fn who_waits_moves_the_data_while_workers_are_busy() {
    watched(|| {
        let first = alone();
        let busy = Busy::all_but(first.device(), 0);
        for _ in 0..3 {
            let comm = alone();
            let mut x = comm.device().zeros::<f32>(LARGE).expect("memory");
            comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
            x.to_vec().expect("moved");
            comm.finish().expect("finish");
        }
        busy.let_go();
        first.finish().expect("finish");
    });
}
