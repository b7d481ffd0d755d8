//! Work that a broken communicator left unfinished is not reported as a mistake of order.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use typed_nccl::{Communicator, Error, Host, Result, Seat, Signals, Sum};

use super::play::Dev;

/// Longer than the others need to get ahead.
const LATE: Duration = Duration::from_millis(50);

fn connect(seat: Seat) -> Communicator<Dev> {
    let device = Host::any(seat.rank().index() as u32).expect("a device");
    Communicator::builder().seat(seat).device(device).build().connect().expect("connected")
}

/// Rank 2 waits for a signal that never comes and drops its communicator; rank 1's end releases the
/// wait. Rank 2's later reads come before its health shows the end.
fn read_behind_a_wait_that_was_let_go_of() -> Vec<Result<()>> {
    let all = Barrier::new(3);
    let rank = |seat: Seat| {
        let rank = seat.rank().index();
        let mut comm = connect(seat);
        let source = comm.window::<u32>(8).expect("a window");
        let target = comm.window::<u32>(8).expect("a window");
        if rank == 2 {
            let mut both = Signals::new();
            both.expect(1);
            both.expect(0);
            comm.wait_signals(&both).expect("enqueued");
        }
        comm.barrier().expect("all are here");
        if rank == 0 {
            comm.put_signal(source.slice(0..8), 2, target.at(0)).expect("enqueued");
        }
        comm.barrier().expect("all are here");
        let mut found = Vec::new();
        match rank {
            0 => {
                all.wait();
                all.wait();
            }
            1 => {
                all.wait();
                comm.abort();
                all.wait();
            }
            _ => {
                drop(comm);
                all.wait();
                found.extend((0..3).map(|_| target.to_vec().map(drop)));
                all.wait();
            }
        }
        found
    };
    thread::scope(|scope| {
        let ranks: Vec<_> =
            Seat::local(3).into_iter().map(|seat| scope.spawn(|| rank(seat))).collect();
        ranks.into_iter().flat_map(|rank| rank.join().expect("no panic")).collect()
    })
}

#[test]
fn a_read_behind_a_wait_that_the_end_let_go_of() {
    for _ in 0..20 {
        let found = read_behind_a_wait_that_was_let_go_of();
        assert!(matches!(found[0], Err(Error::PeerFailed(_))), "{:?}", found[0]);
        let is_told = |outcome: &Result<()>| matches!(outcome, Err(Error::Hazard(_)));
        assert!(!found.iter().any(is_told), "{found:?}");
    }
}

/// A closure of rank 1 panics, so the reduction that keeps rank 2's put behind rank 0's write does
/// not happen. The ranks are told of that, and not of the order that it should have established.
#[test]
fn a_put_behind_a_reduction_that_was_refused() {
    let rank = |seat: Seat| {
        let rank = seat.rank().index();
        let mut comm = connect(seat);
        let source = comm.window::<u32>(8).expect("a window");
        let mut target = comm.window::<u32>(8).expect("a window");
        let mut one = comm.device().zeros::<u32>(1).expect("memory");
        let stream = comm.stream();
        match rank {
            0 => stream.launch(&mut target, |_, ()| thread::sleep(LATE)),
            1 => stream.launch((), |(), ()| resume_unwind(Box::new("planned"))),
            _ => Ok(()),
        }
        .expect("enqueued");
        comm.all_reduce_in_place(&mut one, Sum).expect("enqueued");
        if rank == 2 {
            comm.put_signal(source.slice(0..8), 0, target.at(0)).expect("enqueued");
        }
        if rank == 0 {
            comm.wait_signal(2).expect("enqueued");
        }
        let mut found = Vec::new();
        while let Err(error) = comm.sync(comm.stream()) {
            found.push(error);
        }
        comm.barrier().expect("all are here");
        (rank, found)
    };
    thread::scope(|scope| {
        let ranks = Seat::local(3).into_iter().map(|seat| scope.spawn(move || rank(seat)));
        for rank in ranks.collect::<Vec<_>>() {
            let (rank, found) = rank.join().expect("no panic");
            let is_told = match rank {
                1 => matches!(found[..], [Error::Panicked(_)]),
                _ => matches!(found[..], [Error::Refused(_)]),
            };
            assert!(is_told, "rank {rank}: {found:?}");
        }
    });
}
