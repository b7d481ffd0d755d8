//! Ranks on threads, under a watchdog.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use typed_nccl::{AnyDevice, Communicator, Error, Host, Result, Seat};

pub(crate) type Dev = Host<AnyDevice>;
pub(crate) type Comm = Communicator<Dev>;

/// Longer than any test takes, and shorter than any deadline.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs each rank's body and returns the results.
pub(crate) fn ranks<R: Send + 'static>(
    n: usize,
    body: impl Fn(Comm) -> Result<R> + Send + Sync + 'static,
) -> Vec<Result<R>> {
    let (done, over) = channel();
    let body = std::sync::Arc::new(body);
    for seat in Seat::local(n) {
        let (done, body) = (done.clone(), body.clone());
        thread::spawn(move || {
            let rank = seat.rank().index();
            let device = Host::any(rank as u32).expect("a device");
            let comm = seat.init(device).expect("init");
            done.send((rank, body(comm))).ok();
        });
    }
    drop(done);
    let mut outcomes: Vec<_> = (0..n)
        .map(|_| match over.recv_timeout(LIMIT) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
            Err(RecvTimeoutError::Disconnected) => panic!("a rank panicked"),
        })
        .collect();
    outcomes.sort_by_key(|(rank, _)| *rank);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// As [`ranks`], until a report has every call: a wait anywhere in the process, also in another test,
/// may find the circle once it is certain, when a rank has yet to make its last call.
pub(crate) fn all_called<R: Send + 'static>(
    n: usize,
    body: impl Fn(Comm) -> Result<R> + Send + Sync + 'static,
) -> Vec<Result<R>> {
    let body = std::sync::Arc::new(body);
    let run = |_| {
        let body = body.clone();
        ranks(n, move |comm| body(comm))
    };
    let is_early = |outcome: &Result<R>| match outcome {
        Err(error) => error.to_string().contains("which it has not called"),
        Ok(_) => false,
    };
    let mut runs = (0..20).map(run);
    runs.find(|outcomes| !outcomes.iter().any(is_early)).expect("all calls, once in 20 times")
}

/// Every rank reports a deadlock with exactly these lines; `#` stands for this file.
pub(crate) fn tell<R: std::fmt::Debug>(outcomes: &[Result<R>], file: &str, text: &str) {
    let text = text.replace('#', file);
    for (rank, outcome) in outcomes.iter().enumerate() {
        let error = outcome.as_ref().expect_err("it cannot end");
        assert!(matches!(error, Error::Deadlock(_)), "rank {rank}: {error}");
        assert!(error.is_fatal());
        assert_eq!(error.to_string(), text, "rank {rank}");
    }
}
