//! Work that a broken communicator left unfinished is not reported as a mistake of order, and
//! neither is what follows a call that did not happen.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;

use typed_nccl::{
    Buffer, Communicator, Error, Host, Requirements, Result, Seat, Signals, Sum, Window, tag,
};

use super::play::Dev;

tag!(Kid);

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

/// A rank with a window that is put from, one that is put into, and what it is told of.
struct Member {
    comm: Communicator<Dev>,
    rank: usize,
    source: Window<u32, Dev>,
    target: Window<u32, Dev>,
    one: Buffer<u32, Dev>,
    errors: Vec<Error>,
}

impl Member {
    fn connect(seat: Seat) -> Self {
        let rank = seat.rank().index();
        let mut comm = connect(seat);
        let source = comm.window::<u32>(8).expect("a window");
        let target = comm.window::<u32>(8).expect("a window");
        let one = comm.device().zeros::<u32>(1).expect("memory");
        Self { comm, rank, source, target, one, errors: Vec::new() }
    }

    fn write(&mut self) {
        self.comm.stream().launch(&mut self.target, |_, ()| ()).expect("enqueued");
    }

    fn reduce(&mut self) {
        self.comm.all_reduce_in_place(&mut self.one, Sum).expect("enqueued");
    }

    fn put(&self) {
        self.comm.put_signal(self.source.slice(0..8), 0, self.target.at(0)).expect("enqueued");
    }

    fn sync(&mut self) {
        while let Err(error) = self.comm.sync(self.comm.stream()) {
            self.errors.push(error);
        }
    }
}

/// Plays a program on all ranks; returns what each was told.
fn told(ranks: usize, program: impl Fn(&mut Member) + Sync) -> Vec<Vec<Error>> {
    let (program, over) = (&program, &Barrier::new(ranks));
    let play = |seat| {
        let mut member = Member::connect(seat);
        program(&mut member);
        // Another rank's later put may be what a mistake is found with.
        member.sync();
        over.wait();
        member.sync();
        member.errors
    };
    thread::scope(|scope| {
        let seats = Seat::local(ranks).into_iter();
        let ranks: Vec<_> = seats.map(|seat| scope.spawn(move || play(seat))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

/// A closure of rank 1 panics, so the reduction that keeps rank 2's put behind rank 0's write does
/// not happen. The ranks are told of that, and not of the order that it should have established.
/// Behind the next reduction that happens, mistakes are found again.
#[test]
fn a_put_behind_a_reduction_that_was_refused() {
    let enqueued = Barrier::new(3);
    let told = told(3, |member| {
        match member.rank {
            0 => member.write(),
            1 => {
                let panics = |(), ()| resume_unwind(Box::new("planned"));
                member.comm.stream().launch((), panics).expect("enqueued");
            }
            _ => {}
        }
        member.reduce();
        match member.rank {
            0 => member.comm.wait_signal(2).expect("enqueued"),
            2 => member.put(),
            _ => {}
        }
        member.sync();
        member.reduce();
        match member.rank {
            0 => member.write(),
            2 => member.put(),
            _ => {}
        }
        enqueued.wait();
    });
    assert!(matches!(told[0][..], [Error::Refused(_), Error::Hazard(_)]), "{:?}", told[0]);
    assert!(matches!(told[1][..], [Error::Panicked(_)]), "{:?}", told[1]);
    assert!(matches!(told[2][..], [Error::Refused(_), Error::Hazard(_)]), "{:?}", told[2]);
}

/// Rank 1's call is refused as it makes it.
#[test]
fn a_put_behind_a_call_that_was_refused() {
    // What a host wait has seen counts as known to all.
    let enqueued = Barrier::new(2);
    let told = told(2, |member| {
        if member.rank == 0 {
            member.write();
            member.reduce();
            member.comm.wait_signal(1).expect("enqueued");
        } else {
            let past = &mut member.one.slice_mut(0..2);
            let refused = member.comm.all_reduce_in_place(past, Sum).expect_err("past the end");
            assert!(refused.is_refusal(), "{refused}");
            member.put();
        }
        enqueued.wait();
    });
    assert!(matches!(told[0][..], [Error::Refused(_)]), "{:?}", told[0]);
    assert!(told[1].is_empty(), "{:?}", told[1]);
}

/// Rank 0 ends the communicator of the barrier instead of coming to it.
#[test]
fn a_put_behind_a_barrier_that_was_let_go_of() {
    let enqueued = Barrier::new(2);
    let told = told(2, |member| {
        let mut child = member.comm.split::<Kid>(0, 0).expect("a child");
        let api = child.device_api().expect("the host has it");
        let needs = Requirements::new().lsa_barriers(1);
        let dev = child.dev_comm(&api, &needs).expect("a device communicator");
        if member.rank == 0 {
            member.write();
            enqueued.wait();
            child.abort();
            return member.comm.wait_signal(1).expect("enqueued");
        }
        let stream = member.comm.stream();
        stream.launch((&dev,), |(dev,), ()| dev.lsa_barrier(0).sync()).expect("enqueued");
        member.put();
        enqueued.wait();
        member.sync();
    });
    assert!(told[0].is_empty(), "{:?}", told[0]);
    let has_failed = |error: &Error| matches!(error, Error::PeerFailed(_));
    assert!(!told[1].is_empty() && told[1].iter().all(has_failed), "{:?}", told[1]);
}
