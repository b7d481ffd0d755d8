//! Compares the checker with the simulator on random plans.

use crate::{Check, Failure, cargo};

/// Runs `plan-simulator`, which compares them; the arguments are a seed, the number of instances,
/// and the number of plans.
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
