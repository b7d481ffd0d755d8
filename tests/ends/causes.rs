//! Of several ranks that fail, `spmd` returns the error that no other rank caused, whichever ends
//! first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{scope, sleep};
use std::time::Duration;

use typed_nccl::{Communicator, Device, Error, Host, Result, Sum};

use super::common::watched;
use super::mine::Mine;

/// Longer than the others take to end.
const LATER: Duration = Duration::from_millis(100);

fn reduces<D: Device>(comm: &Communicator<D>) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(4)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    x.to_vec().map(drop)
}

fn refuses<D: Device>(comm: &Communicator<D>) -> Result<()> {
    let (x, mut y) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(3)?);
    comm.all_reduce(&x, &mut y, Sum)
}

/// Rank 1's call is refused, and it ends last; `takes` handles the error on the others.
fn refused(takes: fn(Result<()>) -> Result<(), Mine>) -> Result<Vec<()>, Mine> {
    Host::spmd(3, |place| {
        let comm = place.init()?;
        comm.barrier()?;
        if comm.rank().index() != 1 {
            return takes(reduces(&comm));
        }
        let refused = refuses(&comm);
        sleep(LATER);
        refused.map_err(Mine::from)
    })
}

/// Rank 1 aborts, and ends last.
fn aborted(takes: fn(Result<()>) -> Result<(), Mine>) -> Result<Vec<()>, Mine> {
    Host::spmd(3, |place| {
        let comm = place.init()?;
        comm.barrier()?;
        if comm.rank().index() != 1 {
            return takes(reduces(&comm));
        }
        comm.abort_because("the disk is full");
        sleep(LATER);
        Err(Mine::Disk)
    })
}

/// The message with which `run` panics.
fn panics<R>(run: impl FnOnce() -> R) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast::<String>().ok().map(|text| *text))
}

#[test]
fn a_refusal_is_returned_and_not_that_another_rank_refused() {
    watched(|| {
        let failed = Host::spmd(3, |place| {
            let comm = place.init()?;
            comm.barrier()?;
            comm.barrier()?;
            if comm.rank().index() != 1 {
                return reduces(&comm);
            }
            let refused = refuses(&comm);
            sleep(LATER);
            refused
        });
        assert!(matches!(failed, Err(Error::BadLength(_))), "{failed:?}");
        // Nor does the program's own error show that a rank had learnt of it.
        let failed = refused(|outcome| outcome.map_err(|_| Mine::Tired));
        assert!(matches!(failed, Err(Mine::Theirs(Error::BadLength(_)))), "{failed:?}");
        let failed = refused(|outcome| outcome.map_err(|_| Error::other("tired").into()));
        assert!(matches!(failed, Err(Mine::Theirs(Error::BadLength(_)))), "{failed:?}");
    });
}

#[test]
fn who_unwraps_what_another_rank_caused_is_not_the_cause() {
    watched(|| {
        #[expect(clippy::unwrap_used, reason = "a program does so")]
        let failed = aborted(|outcome| {
            outcome.unwrap();
            Ok(())
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
        let failed = aborted(|outcome| {
            outcome.expect("it reduces");
            Ok(())
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
        let failed = aborted(|outcome| match outcome {
            Ok(()) => Ok(()),
            Err(error) => panic!("{error}"),
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
        let failed = aborted(|outcome| match outcome {
            Ok(()) => Ok(()),
            Err(error) => panic!("step 3 failed ({error}), so the run is over"),
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
    });
}

/// A rank's communicator may be used on another of its threads, which then gets the error.
#[test]
fn what_another_thread_of_a_rank_was_told_counts() {
    watched(|| {
        let failed = Host::spmd(3, |place| -> Result<(), Mine> {
            let comm = place.init()?;
            comm.barrier()?;
            if comm.rank().index() != 1 {
                let reduced = scope(|scope| scope.spawn(move || reduces(&comm)).join());
                return reduced.expect("no panic").map_err(|_| Mine::Tired);
            }
            comm.abort_because("the disk is full");
            sleep(LATER);
            Err(Mine::Disk)
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
    });
}

/// Each is a cause; their consequences are not.
#[test]
fn many_ranks_fail_at_once() {
    watched(|| {
        let failed = Host::spmd(64, |place| -> Result<(), Mine> {
            let comm = place.init()?;
            comm.barrier()?;
            match comm.rank().index() % 4 {
                0 => Err(Mine::Disk),
                1 => reduces(&comm).map_err(|_| Mine::Tired),
                2 => reduces(&comm).map_err(Mine::from),
                _ => {
                    sleep(LATER);
                    reduces(&comm).map_err(|error| Error::other(error).into())
                }
            }
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
    });
}

/// An error of one communicator's ranks is a failure of the rank itself in another communicator.
#[test]
fn ranks_in_a_rank_fail_as_that_rank() {
    watched(|| {
        let inner = || {
            Host::spmd(2, |place| -> Result<(), Mine> {
                let comm = place.init()?;
                match comm.rank().index() {
                    0 => Err(Mine::Disk),
                    _ => Ok(reduces(&comm)?),
                }
            })
        };
        let failed = Host::spmd(3, |place| -> Result<(), Mine> {
            let comm = place.init()?;
            comm.barrier()?;
            match comm.rank().index() {
                1 => {
                    sleep(LATER);
                    inner().map(drop)
                }
                _ => reduces(&comm).map_err(|_| Mine::Tired),
            }
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
    });
}

#[test]
fn a_failed_assertion_is_told_whatever_else_failed() {
    watched(|| {
        let said = panics(|| {
            aborted(|outcome| {
                let error = outcome.expect_err("rank 1 is gone");
                assert!(error.is_refusal(), "not what was expected: it is no refusal");
                Ok(())
            })
        });
        assert_eq!(said.as_deref(), Some("not what was expected: it is no refusal"));
    });
}

#[test]
fn what_was_told_before_is_past_when_a_rank_goes_on() {
    watched(|| {
        let failed = Host::spmd(3, |place| -> Result<(), Mine> {
            let mut comm = place.init()?;
            comm.barrier()?;
            if comm.rank().index() == 1 {
                comm.abort_because("it was to die");
                return Ok(());
            }
            assert!(reduces(&comm).is_err_and(|error| error.is_peer_failure()));
            comm.recover()?;
            if comm.rank().index() == 0 {
                reduces(&comm)?;
            }
            comm.abort_because("the disk is full");
            sleep(LATER);
            Err(Mine::Disk)
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
    });
}
