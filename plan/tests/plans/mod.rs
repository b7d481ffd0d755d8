//! Plans that are right, and plans that are nearly so: data for every test that wants some.

pub(crate) mod near_miss;
pub(crate) mod small;

pub(crate) mod all_gather;
pub(crate) mod all_reduce;
pub(crate) mod apart;
pub(crate) mod assigned;
pub(crate) mod barrier;
pub(crate) mod broadcast;
pub(crate) mod experts;
pub(crate) mod gradients;
pub(crate) mod halo;
pub(crate) mod halo2d;
pub(crate) mod hierarchical;
pub(crate) mod one_f1b;
pub(crate) mod pipeline;
pub(crate) mod reads;
pub(crate) mod ring;

use typed_nccl_plan::build::PlanBuilder;

pub(crate) use near_miss::NearMiss;

/// Gives the good plans to a macro: `file { function .. }`.
macro_rules! each_good_plan {
    ($do:ident) => {
        $do! {
            all_gather { around_a_ring around_any_ring }
            all_reduce { by_steps }
            apart {
                by_turns_in_a_chain by_turns_around_a_ring by_turns_around_any_ring by_threes token two_tokens
                pipeline halo
            }
            assigned { one_shot averages }
            barrier { dissemination all_pairs }
            broadcast { tree }
            experts { dispatch_and_combine by_messages by_messages_of_any_number }
            gradients { buckets }
            halo { one_sided two_sided two_signals_counted }
            halo2d { torus }
            hierarchical {
                all_reduce few_nodes leaders_alone first_node_and_leaders two_streams_in_the_hosts_order
            }
            one_f1b { listed }
            pipeline { forward }
            reads { around_a_ring along_a_chain one_shot two_shots in_two_copies }
            ring { exchange in_two_halves }
        }
    };
}

/// Gives the near misses to a macro: `file { function .. }`.
macro_rules! each_near_miss {
    ($do:ident) => {
        $do! {
            apart {
                all_send_first every_second_is_silent token_that_nobody_has token_that_all_have
                token_of_the_fifth_rank pipeline_loads_at_the_wrong_end halo_awaited_across_the_ends
                halo_in_one_copy
            }
            assigned { the_larger_for_the_sum of_two_lengths within_itself }
            all_gather { with_a_hole covered_twice past_the_end }
            all_reduce { adds_to_another_part passes_on_another_part a_turn_too_few }
            barrier { one_is_silent waits_first }
            broadcast { a_round_too_few everyone_is_the_root }
            experts { at_anothers_place collective_among_messages }
            gradients { without_the_first length_by_rank in_another_order }
            halo {
                claims_two_ranks awaited_in_another_order one_copy one_copy_twice one_way wait_with_its_cause two_signals_in_a_graph
                awaits_one_too_many
            }
            halo2d { one_copy three_of_four }
            hierarchical {
                first_node_alone forgets_to_gather at_anothers_place two_streams
            }
            one_f1b { without_groups grouped_on_one_end }
            pipeline { reads_what_nobody_wrote one_buffer_for_both }
            reads {
                without_ready without_done without_done_in_a_loop of_a_caller of_a_caller_twice of_no_window of_nothing
                longer_there before_the_first
            }
            ring {
                sends_first sends_what_nobody_receives receives_doubles onto_itself itself_in_two_steps
                output_never_written on_two_streams half_for_two_thirds
            }
        }
    };
}

macro_rules! list {
    ($($file:ident { $($name:ident)+ })+) => {
        vec![$($((concat!(stringify!($file), "::", stringify!($name)), $file::$name())),+),+]
    };
}

/// Every good plan, by its name.
pub(crate) fn good() -> Vec<(&'static str, PlanBuilder)> {
    each_good_plan!(list)
}

/// Every near miss, by its name.
pub(crate) fn near_misses() -> Vec<(&'static str, NearMiss)> {
    each_near_miss!(list)
}

pub(crate) use {each_good_plan, each_near_miss};
