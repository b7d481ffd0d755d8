//! Compares the checker and the simulator on random plans: `cargo run -p xtask -- plans SEED COUNT`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use plan_simulator::{run_every, run_many};

/// How many instances, unless one says.
const COUNT: usize = 1_000_000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: usize| match arguments.next() {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| text),
    };
    match (number(1), number(COUNT)) {
        (Ok(seed), Ok(count)) => compare(seed as u64, count),
        (Err(text), _) | (_, Err(text)) => {
            eprintln!("`{text}`: expected a number");
            ExitCode::FAILURE
        }
    }
}

fn compare(seed: u64, count: usize) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let told = AtomicUsize::new(0);
    let report = run_many(seed, count, threads, &|done| {
        let tenth = done * 10 / count.max(1);
        if told.fetch_max(tenth, Ordering::Relaxed) < tenth {
            println!("{done} of {count} instances");
        }
    });
    print!("{}", report.table);
    // A plan at many sizes costs about as much as fifty instances.
    let every = run_every(seed, count / 50, threads, 12);
    print!("{every}");
    let differences = report.differences.values().chain(every.differences.values());
    let stories: Vec<&str> = differences.map(String::as_str).collect();
    if stories.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{} kinds of differences\n\n{}", stories.len(), stories.join("\n"));
    ExitCode::FAILURE
}
