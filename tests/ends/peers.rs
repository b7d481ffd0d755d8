//! Which ranks are named as lost, and which ranks get which error.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use typed_nccl::{Error, Rank, Result, Seat, Sum};

use crate::ranks::spmd;

use super::common::{Comm, Dev, connect, seats, watched};

fn names(error: &Error, rank: usize) {
    let Error::PeerFailed(lost) = error else { panic!("{error}") };
    assert_eq!(lost.lost, [Rank::from_index(rank)], "{error}");
}

/// Connects and waits until all have.
fn together(seat: Seat, all: &Barrier) -> Comm {
    let comm = connect(seat);
    all.wait();
    comm
}

/// Waits in an operation until rank 2 is gone.
fn waits_in_vain(comm: &Comm) {
    let mut x = comm.device().zeros::<f32>(1).expect("memory");
    let told = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec());
    names(&told.expect_err("rank 2 is gone"), 2);
}

#[test]
fn a_rank_that_was_told_is_not_lost_itself() {
    watched(|| {
        let ([a, b, c], all) = (seats(), Barrier::new(3));
        thread::scope(|scope| {
            scope.spawn(|| {
                let comm = together(a, &all);
                waits_in_vain(&comm);
                all.wait();
                all.wait();
            });
            scope.spawn(|| {
                drop(together(c, &all).abort());
                all.wait();
                all.wait();
            });
            let comm = together(b, &all);
            all.wait();
            // Rank 0 left as well, which changes nothing.
            names(&comm.health().expect_err("poisoned"), 2);
            names(&comm.barrier().expect_err("poisoned"), 2);
            all.wait();
        });
    });
}

#[test]
fn a_rank_in_a_host_side_exchange_is_told_who_was_first() {
    watched(|| {
        for _ in 0..10 {
            let ([a, b, c, d], all) = (seats(), Barrier::new(4));
            let all = &all;
            thread::scope(|scope| {
                for seat in [a, d] {
                    scope.spawn(move || waits_in_vain(&together(seat, all)));
                }
                scope.spawn(move || {
                    let comm = together(c, all);
                    thread::sleep(Duration::from_millis(10));
                    drop(comm.abort());
                });
                names(&together(b, all).barrier().expect_err("rank 2 is gone"), 2);
            });
        }
    });
}

#[test]
fn a_refusal_that_nobody_waited_for_fails_the_finish_of_those_who_are_told_only() -> Result<()> {
    spmd::<Dev>(2, |place| {
        let comm = place.init()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        if comm.rank().index() == 1 {
            comm.all_reduce_in_place(&mut x.slice_mut(2..9), Sum).expect_err("refused");
            return comm.finish();
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        let error = comm.finish().expect_err("told");
        assert!(matches!(error, Error::Refused(_)), "{error}");
        Ok(())
    })
}
