//! Waits for signals that never come: which ranks get an error, and what frees the stream.

use std::sync::Barrier;

use nccl_sys::Function::{ncclCommAbort, ncclSignal};
use typed_nccl::{Error, Rank, Result, Signals};

use crate::common::{calls, clear, connect, count, handle, says, until};
use crate::scenario::{NEWEST, cuda, nccl, on};

/// Rank 0's action in place of its second signal.
#[derive(Clone, Copy, Debug)]
enum Instead {
    /// Refuses a put, then continues.
    Refuse,
    /// Refuses a put, and drops its communicator.
    RefuseAndDrop,
    Drop,
    Finish,
}

/// Rank 1 waits for two signals of rank 0, which raises one. Returns the error of rank 1's host
/// wait, and the line of its wait.
fn told(instead: Instead) -> Result<(u32, Error)> {
    nccl().set_rma(true);
    clear();
    let enqueued = Barrier::new(2);
    let told = typed_nccl::Cuda::spmd(2, |place| {
        // Passing the deadline does not help, as a scenario may not take so long.
        let mut comm = connect(place, 600_000)?;
        let window = comm.window::<f64>(4)?;
        if comm.rank().index() == 1 {
            let stream = handle(comm.stream())?;
            cuda().hold(stream);
            let mut two = Signals::new();
            two.expect(0_usize).expect(0_usize);
            let line = line!() + 1;
            comm.wait_signals(&two)?;
            enqueued.wait();
            let error = comm.sync(comm.stream()).expect_err("one signal never comes");
            assert!(comm.health().is_err());
            // The late signal frees the stream.
            until("rank 0 raises what it owes", || count(ncclSignal) == 1);
            cuda().release(stream);
            return Ok::<_, Error>(Some((line, error)));
        }
        comm.put_signal(window.slice(0..2), 1, window.at(2))?;
        enqueued.wait();
        if let Instead::Refuse | Instead::RefuseAndDrop = instead {
            let refused = comm.put_signal(window.slice(0..2), 1, window.at(3));
            assert!(refused.is_err_and(|error| error.is_refusal()));
        }
        match instead {
            Instead::Refuse => until("rank 1 tells", || comm.health().is_err()),
            Instead::RefuseAndDrop | Instead::Drop => drop(comm),
            Instead::Finish => says(&comm.finish().expect_err("rank 1 waits"), &["rank 1 left"]),
        }
        Ok(None)
    })?;
    until("both ends", || count(ncclCommAbort) == 2);
    let raised = calls(ncclSignal);
    assert_eq!(raised.iter().map(|call| call.int("peer")).collect::<Vec<_>>(), [1]);
    Ok(told.into_iter().flatten().next().expect("rank 1 is told"))
}

#[test]
fn a_refused_put_is_told_to_who_waits_for_its_signal() {
    on(NEWEST, || {
        for instead in [Instead::Refuse, Instead::RefuseAndDrop] {
            let (line, error) = told(instead)?;
            assert!(matches!(error, Error::Refused(_)), "{error}");
            let wait = format!("wait_signal for 2 from 0, at tests/doubles/signals.rs:{line}");
            says(&error, &[&wait, "rank 0 refused its part: ", "put_signal", "[3, 5)"]);
        }
        Ok(())
    });
}

#[test]
fn who_leaves_is_named_to_who_waits_for_its_signal() {
    on(NEWEST, || {
        for (instead, why) in [
            (Instead::Drop, "its communicator was dropped without `finish`"),
            (Instead::Finish, "it called `finish` at tests/doubles/signals.rs:"),
        ] {
            let (line, error) = told(instead)?;
            let Error::PeerFailed(failed) = &error else { panic!("{error}") };
            assert_eq!(failed.lost, [Rank::from_index(0)]);
            let wait = format!("tests/doubles/signals.rs:{line} on World cannot complete");
            says(&error, &["wait_signal for 2 from 0, at", &wait, "rank 0 left: ", why]);
        }
        Ok(())
    });
}
