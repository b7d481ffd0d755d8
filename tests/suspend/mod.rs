//! Suspending and resuming, on threads; `tests/gpu` runs the same on GPUs.

mod body;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{AnyDevice, Change, CommConfig, Communicator, Error, Host, Result, Seat};

/// Longer means that a rank hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a body on each of several ranks. A hang is reported.
fn watched(
    n: usize,
    config: CommConfig,
    body: impl Fn(Communicator<Host<AnyDevice>>) -> Result<()> + Send + Sync + 'static,
) {
    let (told, hears) = channel();
    let body = Arc::new(body);
    for (ordinal, seat) in (0..).zip(Seat::local(n)) {
        let (told, body, config) = (told.clone(), body.clone(), config.clone());
        thread::spawn(move || {
            let run = || {
                let comm = Communicator::builder().seat(seat).device(Host::any(ordinal)?);
                let ready = comm.config(config).build().start()?.ready();
                // The deadline may be short.
                let mut comm = ready.wait_until(Instant::now() + LIMIT)?;
                comm.within(LIMIT).barrier()?;
                body(comm)
            };
            let _ = told.send(catch_unwind(AssertUnwindSafe(run)));
        });
    }
    for _ in 0..n {
        let outcome = hears.recv_timeout(LIMIT).expect("no rank hangs");
        outcome.expect("no rank panics").unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn what_there_was_is_there_again() {
    watched(3, CommConfig::default(), body::what_there_was_is_there_again);
}

#[test]
fn a_rank_dies_while_it_is_suspended() {
    let all = Barrier::new(3);
    watched(3, CommConfig::default(), move |comm| {
        body::a_rank_dies_while_it_is_suspended(comm, &all)
    });
}

#[test]
fn a_rank_dies_instead() {
    watched(3, CommConfig::default(), body::a_rank_dies_instead);
}

#[test]
fn a_deadline_passes() {
    let both = Barrier::new(2);
    let config = CommConfig::builder().deadline(Duration::from_secs(3)).build();
    watched(2, config, move |comm| body::a_deadline_passes(comm, &both));
}

#[test]
fn a_host_has_no_memory_of_its_own() {
    watched(1, CommConfig::default(), |comm| {
        assert_eq!(comm.memory_stats()?, typed_nccl::MemoryStats::default());
        comm.finish()
    });
}

#[test]
fn a_dropped_one_and_an_aborted_one_end() {
    let all = Barrier::new(2);
    watched(2, CommConfig::default(), move |comm| {
        let handle = comm.abort_handle();
        let comm = comm.suspend()?;
        all.wait();
        // Of two requests, the second may come after the first has ended it for both.
        let asks = comm.rank().index() == 0;
        assert!(!asks || handle.abort("enough"));
        let failed = comm.try_resume().expect_err("it is to be aborted");
        match failed.error {
            Error::Abort(_) => assert!(asks, "{}", failed.error),
            _ => assert!(!asks && failed.error.is_peer_failure(), "{}", failed.error),
        }
        drop(failed.value);
        Ok(())
    });
    watched(2, CommConfig::default(), |comm| {
        drop(comm.suspend()?);
        Ok(())
    });
}

#[test]
fn ranks_that_do_different_things_are_told() {
    watched(2, CommConfig::default(), |comm| {
        let outcome = match comm.rank().index() {
            0 => comm.try_suspend().map(drop).map_err(|failed| failed.error),
            _ => comm.barrier(),
        };
        let error = outcome.expect_err("they differ");
        assert!(matches!(error, Error::ValueMismatch(_)), "{error}");
        assert!(error.to_string().contains("suspend"), "{error}");
        Ok(())
    });
}

#[test]
fn a_watch_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    let watch = move |change: &Change| {
        seen.lock().expect("nobody panics").push(change.to_string());
    };
    let config = CommConfig::builder().watch(watch).build();
    watched(1, config, |comm| comm.suspend()?.resume()?.finish());
    let told = told.lock().expect("nobody panics").clone();
    assert_eq!(told[1..3], ["suspended".to_owned(), "resumed".to_owned()], "{told:?}");
}
