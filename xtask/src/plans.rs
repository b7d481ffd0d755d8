//! Random plans: the checker beside the simulator.

use std::sync::atomic::{AtomicUsize, Ordering};

use plan_simulator::{run_every, run_many};

use crate::{Check, Failure};

/// How many instances, unless one says.
const COUNT: usize = 1_000_000;

pub(crate) fn run(arguments: &[&str]) -> Check {
    let number = |at: usize, otherwise: usize| match arguments.get(at) {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| Failure::NotMade(format!("`{text}`: a number"))),
    };
    let (seed, count) = (number(0, 1)?, number(1, COUNT)?);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let told = AtomicUsize::new(0);
    let report = run_many(seed as u64, count, threads, &|done| {
        let tenth = done * 10 / count.max(1);
        if told.fetch_max(tenth, Ordering::Relaxed) < tenth {
            println!("{done} of {count} instances");
        }
    });
    print!("{}", report.table);
    // A plan for all sizes costs about as much as fifty instances.
    let every = run_every(seed as u64, count / 50, threads, 12);
    print!("{every}");
    if report.differences.is_empty() && every.differences.is_empty() {
        return Ok(());
    }
    let stories: Vec<&str> =
        report.differences.values().chain(every.differences.values()).map(String::as_str).collect();
    let many = stories.len();
    Err(Failure::Broken(format!("{many} kinds of differences\n\n{}", stories.join("\n"))))
}
