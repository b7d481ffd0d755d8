//! Random programs against a sequential model, random deaths, and unordered puts.
//!
//! A program is a list of [`suite::step::Step`]s that every rank plays in one order.
//! [`suite::draw`] makes it, [`suite::rank`] plays it on the library, and [`suite::model`] on plain
//! vectors. Programs are synchronised: puts are fenced from earlier steps and awaited by later
//! ones. So every element of every buffer and window has exactly one right value.
//!
//! Rough programs ([`suite::act`]) add refusals, panics, copies and splits to the steps.
//! [`suite::threads`] plays them with several threads per rank, which pass all resources to each
//! other. Their closures also claim the memory that they use ([`suite::claims`]): an overlap is a
//! fault, whatever values are read. `cargo run --release -p xtask -- fuzz` runs all kinds for long.
//!
//! [`suite::device`] selects the devices; `tests/gpu` plays the same programs on GPUs.
//!
//! Seeds are fixed. `STRESS_SEEDS` scales their number: 100 stands for the numbers in the files, so
//! `STRESS_SEEDS=1000` runs ten times as many. `STRESS_FROM` is the first one: a failure names its
//! seed, and `STRESS_FROM=seed STRESS_SEEDS=1` runs it alone. With `STRESS_VERBOSE` each passing
//! seed is printed, with `STRESS_STEPS` each step, and every step is waited for.
//! holds is printed, with `STRESS_STEPS` each step, and every step is waited for.

#[path = "suite.rs"]
mod suite;

use suite::{deaths, programs, races, script::Script, seeds, threads};

#[test]
fn programs_make_of_every_store_what_the_model_says() {
    seeds::each("programs", 100, programs::play_seed);
}

#[test]
fn threads_that_pass_everything_around_keep_its_order() {
    seeds::each("alone", 30, |seed| threads::play(&Script::alone(seed)));
}

#[test]
fn threads_of_several_ranks_keep_the_order() {
    seeds::each("together", 20, |seed| threads::play(&Script::together(seed)));
}

#[test]
fn deaths_are_told_before_any_deadline() {
    seeds::each("deaths", 100, deaths::play_seed);
}

#[test]
fn deaths_among_threads_are_told_before_any_deadline() {
    seeds::each("dying", 20, |seed| threads::play(&Script::dying(seed)));
}

#[test]
fn programs_that_differ_end_in_errors() {
    seeds::each("differences", 10, deaths::play_different);
}

#[test]
fn racing_puts_are_hazards_at_worst() {
    seeds::each("races", 40, races::play_seed);
}
