//! Sums that are summed again.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{all, buffer, collective, exactly, int, least, on, p, part, plan, repeat};
use crate::wrong::wrong;

fn sum() -> CollectiveKind {
    CollectiveKind::AllReduce(Reduction::Sum)
}

/// Two ranks that are to sum `u` of `p` elements into `v`.
fn to_sum(steps: Vec<Step>) -> Plan {
    let buffers = vec![buffer("u", p(), In), buffer("v", p(), Out)];
    let mut plan = plan(vec![exactly(2)], vec![least(1)], buffers, steps);
    let at = Location::default();
    plan.computes.push(Postcondition { kind: sum(), send: all(0), recv: all(1), at });
    plan
}

#[test]
fn sums_of_sums() {
    let steps = vec![
        collective(sum(), all(0), all(1), on(0)),
        repeat(0, p() / 64, vec![collective(sum(), all(1), all(1), on(0))]),
    ];
    wrong("again p/64 times", to_sum(steps), &[2], &[&[64]]);
}

#[test]
fn part_of_a_sum_is_summed_again() {
    let again = || part(1, 0, p() / 100 * int(100) / 100);
    let steps =
        vec![collective(sum(), all(0), all(1), on(0)), collective(sum(), again(), again(), on(0))];
    wrong("part of a sum is summed again", to_sum(steps), &[2], &[&[100]]);
}
