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
mod common;
#[cfg(feature = "cuda")]
mod errors;
#[cfg(feature = "cuda")]
mod lifecycle;
#[cfg(feature = "cuda")]
mod memory;
#[cfg(feature = "cuda")]
mod windows;
mod collectives;
#[cfg(feature = "cuda")]
mod stress;

#[cfg(feature = "cuda")]
use runner::{Test, test};

#[cfg(feature = "cuda")]
const TESTS: &[Test] = &[
    test("basics::host_copies_and_zeroes", 1, basics::host_copies_and_zeroes),
    test("basics::gpus_that_are_not_there", 1, basics::gpus_that_are_not_there),
    test("basics::more_memory_than_there_is", 1, basics::more_memory_than_there_is),
    test("basics::copies_of_pinned_memory", 1, basics::copies_of_pinned_memory),
    test("basics::memory_of_another_gpu", 2, basics::memory_of_another_gpu),
    test("errors::lengths_that_differ", 2, errors::lengths_that_differ),
    test("errors::reductions_that_differ", 2, errors::reductions_that_differ),
    test("errors::roots_that_differ", 2, errors::roots_that_differ),
    test("errors::operations_in_another_order", 2, errors::operations_in_another_order),
    test("errors::a_refusal_is_told", 2, errors::a_refusal_is_told),
    test("errors::a_refusal_of_all_harms_nothing", 1, errors::a_refusal_of_all_harms_nothing),
    test("lifecycle::again_and_again", 1, lifecycle::again_and_again),
    test(
        "lifecycle::dropped_communicators_end_by_themselves",
        1,
        lifecycle::dropped_communicators_end_by_themselves,
    ),
    test("lifecycle::an_abort_ends_the_others_waits", 2, lifecycle::an_abort_ends_the_others_waits),
    test("lifecycle::a_panic_ends_the_others_waits", 2, lifecycle::a_panic_ends_the_others_waits),
    test(
        "lifecycle::a_deadline_names_who_is_missing",
        2,
        lifecycle::a_deadline_names_who_is_missing,
    ),
    test("lifecycle::an_abort_handle_ends_a_wait", 2, lifecycle::an_abort_handle_ends_a_wait),
    test("lifecycle::a_seat_that_is_dropped", 1, lifecycle::a_seat_that_is_dropped),
    test("lifecycle::two_ranks_on_one_gpu", 1, lifecycle::two_ranks_on_one_gpu),
    test("lifecycle::children_outlive_their_parent", 1, lifecycle::children_outlive_their_parent),
    test("lifecycle::a_clique_of_all_gpus", 1, lifecycle::a_clique_of_all_gpus),
    test("lifecycle::init_in_steps", 1, lifecycle::init_in_steps),
    test("memory::dropped_in_flight", 1, memory::dropped_in_flight),
    test("memory::order_across_streams", 1, memory::order_across_streams),
    test("memory::scalars_on_host_and_device", 1, memory::scalars_on_host_and_device),
    test(
        "memory::two_communicators_on_the_same_gpus",
        1,
        memory::two_communicators_on_the_same_gpus,
    ),
    test("windows::puts_land_and_signals_say_so", 1, windows::puts_land_and_signals_say_so),
    test("windows::signals_count_by_peer_and_slot", 1, windows::signals_count_by_peer_and_slot),
    test(
        "windows::windows_close_and_their_memory_goes_on",
        1,
        windows::windows_close_and_their_memory_goes_on,
    ),
    test("windows::windows_that_differ", 2, windows::windows_that_differ),
    test("windows::signals_need_a_window", 2, windows::signals_need_a_window),
    test("windows::addresses_of_peers", 1, windows::addresses_of_peers),
    test(
        "windows::an_abort_while_a_peer_waits_for_a_signal",
        2,
        windows::an_abort_while_a_peer_waits_for_a_signal,
    ),
    test("collectives::every_form_of_integers", 1, collectives::every_form_of_integers).within(300),
    test("collectives::every_form_of_floats", 1, collectives::every_form_of_floats).within(300),
    test("collectives::random_integer_programs", 1, collectives::random_integer_programs)
        .within(300),
    test("collectives::large", 1, collectives::large).within(300),
    test("stress::programs", 1, stress::programs).within(300),
];

#[cfg(feature = "cuda")]
fn main() -> std::process::ExitCode {
    runner::main(TESTS)
}

#[cfg(not(feature = "cuda"))]
fn main() {
    println!("SKIPPED all GPU tests: built without the feature `cuda`");
}
