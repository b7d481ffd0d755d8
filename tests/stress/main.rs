//! Random programs against a sequential model, random deaths, and puts that nothing orders.
//!
//! A program is a list of [`step::Step`]s that every rank plays in one order; [`draw`] makes it,
//! [`rank`] plays it on the library, [`model`] on plain vectors. Programs are synchronised: puts are
//! fenced from what came before them and waited for by what comes after. So every element of every
//! buffer and window has one right value.
//!
//! [`device`] says what they run on; `tests/gpu` plays the same programs on GPUs.
//!
//! Seeds are fixed. `STRESS_SEEDS` scales how many there are: 100 stands for the numbers in the
//! files, `STRESS_SEEDS=1000` runs ten times as many. `STRESS_FROM` is the first one: a failure names
//! its seed, and `STRESS_FROM=seed STRESS_SEEDS=1` runs it alone. With `STRESS_VERBOSE` each seed that
//! holds is printed, with `STRESS_STEPS` each step, and every step is waited for.

mod call;
mod collective;
mod device;
mod draw;
mod model;
mod play;
mod play_round;
mod random;
mod rank;
mod record;
mod round;
mod seeds;
mod step;
mod store;
mod views;

mod deaths;
mod programs;
mod races;
