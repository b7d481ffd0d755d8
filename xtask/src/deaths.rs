//! Kills ranks at random moments, as threads and as processes on the doubles of CUDA and of NCCL.
//! The others must continue with correct numbers, and nothing may be left of the dead ranks.

use crate::{Check, Failure, cargo};

/// This many times as threads, and as many as processes, which take two seconds each.
pub(crate) fn run(seed: &str, count: &str) -> Check {
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| Failure::NotMade(format!("`{text}`: a number")))
    };
    let (seed, count) = (number(seed)?, number(count)?);
    test("footprint", "threads_that_die_at_random_moments", seed, count)?;
    test("processes", "processes_that_are_killed_at_random_moments", seed, count)
}

fn test(target: &str, name: &str, seed: u64, count: u64) -> Check {
    let mut test = cargo();
    test.args(["test", "--package", "tests", "--test", target, "--", name]);
    test.env("DEATHS", count.to_string()).env("DEATHS_SEED", seed.to_string());
    match test.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Failure::Broken(format!("{name}: {status}, with {count} times of seed {seed}")))
        }
        Err(error) => Err(Failure::NotMade(format!("cargo does not start: {error}"))),
    }
}
