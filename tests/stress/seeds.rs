//! The seeds that a test runs, each under a watchdog.

use std::env;
use std::ops::Range;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Far longer than a seed whose communicators time out takes.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs `body` with each of `usual` seeds, more or fewer if the environment says so, each watched.
pub(crate) fn each(name: &'static str, usual: u64, body: impl Fn(u64)) {
    for seed in seeds(usual) {
        watched(name, seed, || body(seed));
        if env::var_os("STRESS_VERBOSE").is_some() {
            println!("{name}: seed {seed} holds");
        }
    }
}

/// Runs `body`. A deadlock ends the process, with a message.
pub(crate) fn watched<R>(name: &'static str, seed: u64, body: impl FnOnce() -> R) -> R {
    let (done, watched) = channel::<()>();
    thread::spawn(move || {
        if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name}: seed {seed} hangs: it took more than {LIMIT:?}");
            std::process::abort();
        }
    });
    let outcome = body();
    drop(done);
    outcome
}

fn seeds(usual: u64) -> Range<u64> {
    let from = number("STRESS_FROM").unwrap_or(1);
    from..from + (usual * number("STRESS_SEEDS").unwrap_or(100)).div_ceil(100)
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}
