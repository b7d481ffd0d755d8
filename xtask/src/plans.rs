//! Random plans: the checker beside the simulator.

use crate::{Check, Failure, cargo};

/// Runs `plan-simulator`, which compares them; the arguments are a seed, how many instances, and how many plans.
pub(crate) fn run(arguments: &[&str]) -> Check {
    let mut compare = cargo();
    compare.args(["run", "--release", "--quiet", "--package", "plan-simulator", "--"]);
    let status = compare.args(arguments).status();
    let status = status.map_err(|error| Failure::NotMade(format!("cargo: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Broken("the checker and the simulator differ".to_owned()))
}
