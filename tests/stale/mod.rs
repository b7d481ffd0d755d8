//! Ranks of a communicator from before a recovery are refused by name.

mod ranks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use typed_nccl::{AnyDevice, Communicator, Error, Host, Result, Seat};

use crate::ranks::spmd;

/// Runs a body on each of several ranks. A hang is reported.
fn watched(n: usize, body: fn(Communicator<Host<AnyDevice>>) -> Result<()>) {
    let (told, hears) = channel();
    for (ordinal, seat) in (0..).zip(Seat::local(n)) {
        let told = told.clone();
        thread::spawn(move || {
            let run = || {
                let comm = seat.init(Host::any(ordinal)?)?;
                comm.barrier()?;
                body(comm)
            };
            let _ = told.send(catch_unwind(AssertUnwindSafe(run)));
        });
    }
    for _ in 0..n {
        let outcome = hears.recv_timeout(Duration::from_secs(60)).expect("no rank hangs");
        outcome.expect("no rank panics").unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn ranks_of_before_are_refused() {
    watched(4, ranks::ranks_of_before_are_refused);
}

#[test]
fn ranks_in_errors_are_those_of_now() {
    watched(4, ranks::ranks_in_errors_are_those_of_now);
}

#[test]
fn children_number_their_ranks_as_their_parent() {
    watched(4, ranks::children_number_their_ranks_as_their_parent);
}

#[test]
fn a_rank_of_another_communicator_that_went_on_is_told_apart() -> Result<()> {
    spmd::<Host>(2, |place| {
        let kept = place.init()?;
        let mut alone = Seat::local(1).remove(0).init(Host::any(7)?)?;
        alone.recover()?;
        let mut x = kept.device().zeros::<f32>(1)?;
        let error = kept.recv(&mut x, alone.rank()).expect_err("it is no rank of this one");
        let text = error.to_string();
        assert!(matches!(error, Error::StaleRank(_)), "{text}");
        assert!(text.contains("had other numbers"), "{text}");
        alone.finish()?;
        kept.finish()
    })
}
