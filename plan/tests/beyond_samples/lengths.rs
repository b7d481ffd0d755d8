//! Lengths that differ, or are left out, from some size on.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{
    all, buffer, collective, exactly, group, int, least, n, on, p, part, plan, r, recv, repeat,
    ring, send, transfer,
};
use crate::wrong::wrong;

/// Two ranks with buffers of `p` elements.
fn of_p(body: Vec<Step>) -> Plan {
    plan(
        vec![exactly(2)],
        vec![least(1)],
        vec![buffer("u", p(), In), buffer("v", p(), InOut)],
        body,
    )
}

#[test]
fn halves_of_different_lengths() {
    wrong(
        "local lengths p/64",
        of_p(vec![group(vec![
            send(all(0), ring(1), on(0)),
            recv(part(1, 0, p() - p() / 64), ring(-1), on(0)),
        ])]),
        &[2],
        &[&[64]],
    );
    let pn = |body| {
        plan(vec![least(2)], vec![], vec![buffer("u", n(), In), buffer("v", n(), InOut)], body)
    };
    wrong(
        "local lengths n/64",
        pn(vec![group(vec![
            send(all(0), ring(1), on(0)),
            recv(part(1, 0, n() - n() / 64), ring(-1), on(0)),
        ])]),
        &[64],
        &[],
    );
    wrong(
        "local lengths r/64",
        plan(
            vec![least(2)],
            vec![],
            vec![buffer("u", n() * 2, In), buffer("v", n() * 2, InOut)],
            vec![group(vec![
                send(part(0, r(), r() + 1), ring(1), on(0)),
                recv(part(1, r(), r() + 1 + r() / 64), ring(-1), on(0)),
            ])],
        ),
        &[70],
        &[],
    );
}

#[test]
fn a_collective_that_is_longer_on_later_ranks() {
    let buffers = vec![buffer("u", n() + 1, In), buffer("v", n() + 1, InOut)];
    let some = |buffer: u32| part(buffer, 0, int(1) + r() / 64);
    let sum = CollectiveKind::AllReduce(Reduction::Sum);
    let steps = vec![collective(sum, some(0), some(1), on(0))];
    wrong(
        "a collective that is longer on later ranks",
        plan(vec![least(1)], vec![], buffers, steps),
        &[65],
        &[],
    );
}

#[test]
fn regions_that_are_not_filled() {
    let mut c = of_p(vec![transfer(
        part(0, 0, p() - p() / 64),
        ring(1),
        part(1, 0, p() - p() / 64),
        on(0),
    )]);
    c.covers.push(Coverage { region: all(1), at: Location::default() });
    wrong("coverage p/64", c, &[2], &[&[64]]);
    let mut c = plan(
        vec![least(2)],
        vec![],
        vec![buffer("u", 2000, In), buffer("v", 2000, InOut)],
        vec![
            repeat(0, n() / 64, vec![transfer(all(0), ring(1), all(1), on(0))]),
            transfer(all(0), ring(1), all(1), on(0)),
        ],
    );
    c.covers.push(Coverage { region: all(1), at: Location::default() });
    wrong("coverage loop n/64", c, &[64], &[]);
}

#[test]
fn a_group_that_meets_itself_at_a_later_rank() {
    let at = || int(1) + r() % 65;
    let steps = vec![group(vec![
        transfer(part(0, 0, 1), ring(1), part(0, at(), at() + 1), on(0)),
        transfer(part(0, 65, 66), ring(2), part(0, 66, 67), on(0)),
    ])];
    wrong(
        "a group that meets itself at a later rank",
        plan(vec![least(70)], vec![], vec![buffer("u", 70, InOut)], steps),
        &[70],
        &[],
    );
}
