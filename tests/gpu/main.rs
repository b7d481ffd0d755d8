//! What needs GPUs: `cargo test --test gpu`. Says so and succeeds where there is none.
//!
//! Each test runs in a process of its own, under a watchdog: a hang or a fault of one is told and does
//! not reach the next. `cargo test --test gpu -- name` runs the tests whose names contain `name`.
//! `TYPED_NCCL_GPU_UNDER="compute-sanitizer --error-exitcode 9"` runs each under another program.

#[cfg(feature = "cuda")]
mod runner;

#[cfg(feature = "cuda")]
mod basics;

#[cfg(feature = "cuda")]
use runner::{Test, test};

#[cfg(feature = "cuda")]
const TESTS: &[Test] = &[test("basics::host_copies_and_zeroes", 1, basics::host_copies_and_zeroes)];

#[cfg(feature = "cuda")]
fn main() -> std::process::ExitCode {
    runner::main(TESTS)
}

#[cfg(not(feature = "cuda"))]
fn main() {
    println!("SKIPPED all GPU tests: built without the feature `cuda`");
}
