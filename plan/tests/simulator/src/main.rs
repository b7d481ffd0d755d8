//! Compares the checker and the simulator on random plans: `cargo run --release -p xtask -- plans
//! SEED COUNT PLANS`.

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
    let (seed, count) = (number(1), number(COUNT));
    // A plan at many sizes costs about as much as fifty instances.
    let plans = number(count.as_ref().map_or(0, |count| count / 50));
    match (seed, count, plans) {
        (Ok(seed), Ok(count), Ok(plans)) => compare(seed as u64, count, plans),
        (Err(text), ..) | (_, Err(text), _) | (.., Err(text)) => {
            eprintln!("`{text}`: expected a number");
            ExitCode::FAILURE
        }
    }
}

/// Compares so many instances, and so many plans as they are checked while compiling.
fn compare(seed: u64, count: usize, plans: usize) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let told = AtomicUsize::new(0);
    let report = run_many(seed, count, threads, &|done| {
        let tenth = done * 10 / count.max(1);
        if told.fetch_max(tenth, Ordering::Relaxed) < tenth {
            println!("{done} of {count} instances");
        }
    });
    print!("{}", report.table);
    let every = run_every(seed, plans, threads, 12);
    print!("{every}");
    let differences = report.differences.values().chain(every.differences.values());
    let stories: Vec<&str> = differences.map(String::as_str).collect();
    if stories.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{} kinds of differences\n\n{}", stories.len(), stories.join("\n"));
    ExitCode::FAILURE
}
