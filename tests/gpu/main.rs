//! Tests for GPUs: `cargo test -p tests --test gpu`. Without GPUs they run on the doubles of CUDA
//! and NCCL, which move data between threads and run the tests' kernels, except for those that need
//! more. `TYPED_NCCL_GPU_DOUBLES=2` simulates two GPUs on any machine.
//!
//! The tests of a module share a process under a watchdog, and get a new one after a failure, so
//! that a hang or a fault of one is reported and does not affect the next. `cargo test -p tests
//! --test gpu -- name` runs the tests whose names contain `name`.
//! `TYPED_NCCL_GPU_UNDER="compute-sanitizer --report-api-errors no --error-exitcode 9"` runs them
//! under another program, with ten times as much time (without API errors, as NCCL queries CUDA for
//! features that it may lack). With one GPU, two ranks share it, if NCCL supports that (2.30 and
//! later); `TYPED_NCCL_GPU_SHARED=4` sets how many. `TYPED_NCCL_GPU_SECONDS=30` limits every test
//! to 30 seconds.

mod process;
mod runner;
#[path = "../processes/stage.rs"]
mod stage;

mod adopt;
mod assigned;
#[path = "../kernels/axpy.rs"]
mod axpy;
mod basics;
#[path = "../raw/call.rs"]
mod call;
mod cliques;
mod collectives;
mod common;
mod complex;
mod config;
mod convert;
#[path = "../plans/declared.rs"]
mod declared;
mod device;
#[cfg(feature = "dlpack")]
mod dlpack;
mod errors;
mod exact;
mod graphs;
mod groups;
mod kernel;
mod kernels;
mod late;
mod launched;
mod lifecycle;
mod memory;
mod order;
mod ours;
mod passed;
mod plan_library;
mod plans;
mod queries;
mod raw;
mod reads;
#[path = "../stale/ranks.rs"]
mod stale;
mod stress;
mod survive;
#[path = "../suspend/body.rs"]
mod suspend;
mod windows;

use std::process::ExitCode;

use runner::Test;

/// `module::test: ranks that it needs, seconds that it may take, why it needs real GPUs;`
macro_rules! tests {
    ($(
        $(#[$on:meta])*
        $module:ident::$test:ident: $gpus:literal, $seconds:literal $(, $real:ident)?;
    )+) => {
        &[$($(#[$on])* Test {
            name: concat!(stringify!($module), "::", stringify!($test)),
            gpus: $gpus,
            seconds: $seconds,
            real: [$(Some($real),)? None][0],
            run: $module::$test,
        },)+]
    };
}

const NVRTC: &str = "the double of NVRTC compiles no C++";
const GLOBAL: &str = "the double captures in relaxed mode";
const LARGE: &str = "it takes hundreds of gigabytes";

const TESTS: &[Test] = tests! {
    adopt::a_slice_that_its_owner_still_writes: 1, 60;
    adopt::a_lent_slice_is_used_on_at_once: 1, 60;
    adopt::a_stream_of_cudarc: 1, 60;
    basics::host_copies_and_zeroes: 1, 60;
    basics::gpus_that_are_not_there: 1, 60;
    basics::more_memory_than_there_is: 1, 60, LARGE;
    basics::copies_of_pinned_memory: 1, 60;
    basics::memory_of_another_gpu: 2, 60;
    #[cfg(feature = "dlpack")]
    dlpack::a_tensor_that_its_library_goes_on_with: 1, 60;
    device::made_and_ended_again_and_again: 1, 60;
    device::all_that_the_machine_has: 1, 60;
    device::over_the_network: 1, 60;
    device::left_to_the_communicators_end: 1, 60;
    device::used_by_what_is_launched: 1, 60;
    device::how_long_it_takes: 1, 60;
    errors::lengths_that_differ: 2, 60;
    errors::reductions_that_differ: 2, 60;
    errors::roots_that_differ: 2, 60;
    errors::operations_in_another_order: 2, 60;
    errors::memory_that_differs: 2, 60;
    errors::transfers_that_differ: 2, 60;
    errors::transfers_in_another_order: 2, 60;
    errors::a_send_that_nobody_receives: 2, 60;
    errors::a_report_has_every_call_in_order: 2, 60;
    errors::a_refusal_is_told: 2, 60;
    errors::a_refusal_of_all_harms_nothing: 1, 60;
    errors::scaling_8_bits_on_one_rank: 1, 60;
    complex::every_form: 1, 120;
    complex::in_a_graph: 1, 60;
    complex::local_work_of_plans: 1, 60;
    complex::products_are_refused: 1, 60;
    exact::every_form: 1, 120;
    exact::in_pieces: 1, 120;
    exact::in_chunks: 1, 120;
    exact::in_graphs: 1, 60;
    exact::on_streams: 1, 60;
    exact::in_groups: 1, 60;
    exact::in_a_clique: 1, 60;
    exact::what_is_refused: 1, 60;
    exact::ranks_that_differ: 2, 60;
    exact::what_it_costs: 1, 300;
    cliques::everything_that_groups_do: 1, 60;
    cliques::windows_of_a_clique: 1, 60;
    cliques::a_clique_is_split: 1, 60;
    cliques::tuned_estimated_and_suspended: 1, 60;
    graphs::launched_again: 1, 60;
    graphs::in_groups: 1, 60;
    graphs::a_kernel_in_a_graph: 1, 60;
    graphs::puts_and_waits: 2, 60;
    graphs::operators: 1, 60;
    graphs::scalars: 1, 60;
    graphs::registered: 1, 60;
    graphs::stale: 2, 60;
    graphs::finish_with_graphs: 1, 60;
    graphs::abort_with_graphs: 1, 60;
    graphs::drop_with_graphs: 1, 60;
    graphs::a_captured_plan: 1, 60;
    graphs::a_capture_of_another_library: 1, 60, GLOBAL;
    graphs::a_captured_plan_of_two_streams: 1, 60;
    config::communicators_that_are_tuned: 1, 60;
    config::calls_that_are_configured: 1, 60;
    config::launches_that_are_waited_for: 1, 60;
    config::configurations_that_differ: 2, 60;
    groups::uneven_in_every_form: 1, 60;
    groups::rooted_and_slots: 1, 60;
    groups::several_communicators: 1, 60;
    groups::estimates: 2, 60;
    groups::what_one_refuses_all_refuse: 2, 60;
    kernels::one_source_for_both_devices: 1, 60;
    kernels::in_a_plan: 1, 60;
    kernels::in_a_graph: 1, 60;
    kernels::that_do_not_fit: 1, 60;
    kernels::that_communicate: 1, 60, NVRTC;
    convert::every_pair: 1, 60;
    convert::many_elements: 1, 60;
    assigned::every_type: 1, 60;
    assigned::in_a_graph: 1, 60;
    assigned::plans_of_the_library: 1, 60;
    reads::every_plan: 1, 60;
    passed::each_run: 1, 60;
    passed::a_rank_that_leaves: 2, 60;
    raw::of_another_library_and_back: 2, 60;
    raw::one_that_does_not_block: 2, 60;
    raw::what_does_not_fit_is_refused: 2, 60;
    raw::ends_that_differ: 2, 60;
    raw::what_is_left_over_is_told: 2, 60;
    raw::one_that_lost_a_rank: 2, 60;
    lifecycle::again_and_again: 1, 60;
    lifecycle::dropped_communicators_end_by_themselves: 1, 60;
    lifecycle::an_abort_ends_the_others_waits: 2, 60;
    lifecycle::each_thread_is_told_what_never_came: 2, 60;
    lifecycle::a_panic_ends_the_others_waits: 2, 60;
    lifecycle::an_error_is_told_to_the_others: 2, 60;
    lifecycle::a_deadline_names_who_is_missing: 2, 60;
    lifecycle::an_abort_handle_ends_a_wait: 2, 60;
    lifecycle::a_seat_that_is_dropped: 1, 60;
    lifecycle::two_ranks_on_one_gpu: 1, 60;
    lifecycle::children_outlive_their_parent: 1, 60;
    lifecycle::a_clique_of_all_gpus: 1, 60;
    lifecycle::init_in_steps: 1, 60;
    lifecycle::an_id_for_each_rank: 2, 60;
    lifecycle::one_operation_too_many: 2, 60;
    lifecycle::on_a_thread_of_its_own: 1, 60;
    lifecycle::opposite_first_operations: 2, 40;
    lifecycle::connecting_to_a_rank_that_left: 2, 40;
    lifecycle::the_end_while_a_rank_connects: 2, 40;
    launched::a_process_for_each_gpu: 2, 60;
    launched::processes_that_suspend: 2, 60;
    launched::processes_that_capture: 2, 60;
    launched::processes_of_torchrun: 2, 60;
    memory::dropped_in_flight: 1, 60;
    memory::order_across_streams: 1, 60;
    memory::scalars_on_host_and_device: 1, 60;
    memory::two_communicators_on_the_same_gpus: 1, 60;
    memory::transfers_of_nothing: 2, 60;
    memory::out_of_memory_while_a_rank_waits: 2, 60;
    order::what_a_closure_left_before_its_panic: 1, 60;
    order::a_launch_that_is_still_waiting_is_not_waited_for: 2, 60;
    order::a_stream_with_a_priority: 1, 60;
    ours::every_type: 1, 60;
    ours::every_size: 1, 60;
    ours::streams_and_graphs: 1, 60;
    ours::many_at_once: 1, 60;
    ours::messages: 1, 60;
    ours::rms_norm: 1, 60;
    ours::an_abort_ends_a_kernel_that_waits: 2, 60;
    ours::legs_that_cross: 2, 60;
    ours::launches_that_differ: 2, 60;
    ours::a_kernel_beside_nccls: 2, 60;
    late::one_that_is_late_is_named: 2, 60;
    late::one_that_is_late_is_left_out: 2, 60;
    // In its own process, apart from the others of its module, as it sets a variable.
    ours::an_abort_waits_for_what_runs: 2, 60;
    survive::the_others_go_on_when_a_rank_aborts: 2, 60;
    survive::a_communicator_is_shrunk_well_and_revoked: 2, 60;
    survive::one_rank_grows_to_all_and_shrinks: 2, 60;
    survive::a_process_grows_by_another_one: 2, 60;
    survive::ranks_of_before_are_refused: 2, 60;
    queries::properties: 1, 60;
    queries::timed_marks: 1, 60;
    survive::suspended_and_resumed: 1, 60;
    survive::a_rank_dies_while_it_is_suspended: 2, 60;
    survive::a_rank_dies_instead_of_suspending: 2, 60;
    survive::a_deadline_passes_while_suspending: 2, 60;
    windows::puts_land_and_signals_say_so: 1, 60;
    windows::signals_count_by_peer_and_slot: 1, 60;
    windows::windows_close_and_their_memory_goes_on: 1, 60;
    windows::windows_that_differ: 2, 60;
    windows::windows_and_buffers_mixed: 2, 60;
    windows::signals_need_a_window: 2, 60;
    windows::registered_transfers: 2, 60;
    windows::any_memory_meets_any_other: 2, 60;
    windows::registrations_end_in_any_order: 2, 60;
    windows::one_memory_in_windows_of_two_communicators: 2, 60;
    windows::what_kernels_are_given: 2, 60;
    windows::signals_before_the_first_window: 1, 60;
    windows::addresses_of_peers: 1, 60;
    windows::an_abort_while_a_peer_waits_for_a_signal: 2, 60;
    windows::a_refused_put_is_told_to_who_waits: 2, 40;
    windows::a_refused_put_and_the_end: 2, 30;
    windows::who_waits_for_a_rank_that_left_is_told: 2, 60;
    windows::a_wait_that_nobody_answers_and_the_end: 2, 30;
    // Before tests that leave a communicator to be freed in the background. CUDA waits there for
    // everything that runs on the GPU, under a lock of the context, and this rank's collectives
    // wait for another rank that needs the lock.
    plans::buckets_beside_backward: 1, 60;
    plans::small_all_reduces_by_kernels: 2, 120;
    plans::small_messages_by_kernels: 2, 120;
    plans::kernels_of_some_ranks: 2, 120;
    plans::a_refused_run_of_kernels: 2, 60;
    plans::a_halo_by_puts: 2, 60;
    plans::a_put_without_a_signal: 1, 60;
    plan_library::without_steps: 1, 60;
    plan_library::pipelines: 1, 60;
    plan_library::experts: 1, 60;
    plan_library::a_line: 1, 60;
    plan_library::a_torus: 1, 60;
    collectives::every_form_of_integers: 1, 300;
    collectives::every_form_of_floats: 1, 300;
    collectives::random_integer_programs: 1, 300;
    collectives::large: 1, 300;
    stress::programs: 1, 300;
};

fn main() -> ExitCode {
    runner::main(TESTS)
}
