//! Kills processes at random moments, on the doubles of CUDA and of NCCL. The others must be told,
//! and end.

use crate::{Check, Failure, cargo};

/// How long a process may take to end, in milliseconds.
const WITHIN: &str = "2000";

pub(crate) fn run(count: &str, seed: &str) -> Check {
    for number in [count, seed] {
        let is_number = number.parse::<u64>().is_ok();
        is_number.then_some(()).ok_or_else(|| Failure::NotMade(format!("`{number}`: a number")))?;
    }
    let mut test = cargo();
    test.args(["test", "--package", "tests", "--test", "processes", "--"]);
    test.arg("a_process_that_is_killed_at_any_moment");
    test.env("KILLS", count).env("KILLS_SEED", seed).env("KILLS_WITHIN", WITHIN);
    match test.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Broken(format!("{status}, with {count} kills of seed {seed}"))),
        Err(error) => Err(Failure::NotMade(format!("cargo does not start: {error}"))),
    }
}
