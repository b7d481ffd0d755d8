//! Sends bytes that no rank would to the control plane between processes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use typed_nccl::__private::{Thrown, throw};

use crate::{Check, Failure};

/// Rounds from a seed on, for this long.
pub(crate) fn run(seed: &str, seconds: &str) -> Check {
    let (first, limit) = (number(seed)?, Duration::from_secs(number(seconds)?));
    let (started, mut all) = (Instant::now(), Thrown::default());
    let (mut seed, mut findings) = (first, 0);
    while started.elapsed() < limit {
        match catch_unwind(AssertUnwindSafe(|| throw(seed))) {
            Ok(Ok(thrown)) => {
                all.inputs += thrown.inputs;
                all.messages += thrown.messages;
                all.connections += thrown.connections;
                all.proven += thrown.proven;
            }
            Ok(Err(error)) => {
                findings += 1;
                println!("seed {seed}: {error}");
            }
            // It has printed the reason.
            Err(_) => {
                findings += 1;
                println!("seed {seed}: a panic");
            }
        }
        seed += 1;
    }
    println!("seeds {first}..{seed}: {all:?}, {findings} findings");
    match findings {
        0 => Ok(()),
        _ => Err(Failure::Broken(format!("{findings} findings"))),
    }
}

fn number(text: &str) -> Check<u64> {
    text.parse().map_err(|_| Failure::NotMade(format!("`{text}`: a number")))
}
