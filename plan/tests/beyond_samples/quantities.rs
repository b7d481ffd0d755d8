//! Numbers that are 0 at the first sizes: of iterations, distances, signals and roots.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{
    all, buffer, circle, collective, exactly, group, hop, int, least, line, n, on, p, plan, recv,
    repeat, ring, send, signal, two, wait,
};
use crate::wrong::wrong;

#[test]
fn loops_without_iterations_at_first() {
    wrong(
        "loop over n/64",
        plan(vec![least(2)], vec![], two(), vec![repeat(0, n() / 64, circle())]),
        &[64],
        &[],
    );
    wrong(
        "loop over p/64",
        plan(vec![exactly(4)], vec![least(1)], two(), vec![repeat(0, p() / 64, circle())]),
        &[4],
        &[&[64]],
    );
    wrong(
        "loop to p-40",
        plan(vec![exactly(4)], vec![least(1)], two(), vec![repeat(0, p() - 40, circle())]),
        &[4],
        &[&[64]],
    );
    wrong(
        "samples: too many params, first four",
        plan(
            vec![exactly(2)],
            vec![Values::Range(1, 64), Values::Range(1, 64), Values::Range(1, 64)],
            two(),
            vec![repeat(0, p() / 64, circle())],
        ),
        &[2],
        &[&[64], &[1], &[1]],
    );
    wrong(
        "samples: too many axes and a param",
        plan(
            vec![Values::Range(1, 64), Values::Range(1, 64)],
            vec![Values::Range(1, 64)],
            two(),
            vec![repeat(
                0,
                p() / 64,
                vec![send(all(0), hop(0, 1, true), on(0)), recv(all(1), hop(0, -1, true), on(0))],
            )],
        ),
        &[2, 1],
        &[&[64]],
    );
}

#[test]
fn distances_that_grow() {
    wrong(
        "distance p/16",
        plan(
            vec![exactly(8)],
            vec![least(1)],
            two(),
            vec![group(vec![
                send(all(0), ring(p() / 16 + 1), on(0)),
                recv(all(1), ring(-1), on(0)),
            ])],
        ),
        &[8],
        &[&[16]],
    );
    wrong(
        "distance p/16 open n",
        plan(
            vec![least(2)],
            vec![least(1)],
            two(),
            vec![group(vec![
                send(all(0), ring(p() / 16 + 1), on(0)),
                recv(all(1), ring(-1), on(0)),
            ])],
        ),
        &[8],
        &[&[100]],
    );
    wrong(
        "distance n/64",
        plan(
            vec![least(2)],
            vec![],
            two(),
            vec![group(vec![
                send(all(0), ring(n() / 64 + 1), on(0)),
                recv(all(1), ring(-1), on(0)),
            ])],
        ),
        &[64],
        &[],
    );
    wrong(
        "distance n/64 line",
        plan(
            vec![least(2)],
            vec![],
            two(),
            vec![group(vec![
                send(all(0), line(n() / 64 + 1), on(0)),
                recv(all(1), line(-1), on(0)),
            ])],
        ),
        &[64],
        &[],
    );
}

#[test]
fn more_signals_than_at_first() {
    wrong(
        "times p/64",
        plan(
            vec![exactly(4)],
            vec![least(1)],
            vec![],
            vec![signal(0, ring(1), on(0)), wait(0, ring(-1), p() / 64 + 1, on(1))],
        ),
        &[4],
        &[&[64]],
    );
    wrong(
        "times n/64",
        plan(
            vec![least(2)],
            vec![],
            vec![],
            vec![signal(0, ring(1), on(0)), wait(0, ring(-1), n() / 64 + 1, on(1))],
        ),
        &[64],
        &[],
    );
}

#[test]
fn roots_that_grow() {
    wrong(
        "root p/64*9",
        plan(
            vec![exactly(4)],
            vec![least(1)],
            two(),
            vec![collective(CollectiveKind::Broadcast(p() / 64 * int(9)), all(0), all(1), on(0))],
        ),
        &[4],
        &[&[64]],
    );
    wrong(
        "root n/64*n",
        plan(
            vec![least(2)],
            vec![],
            two(),
            vec![collective(CollectiveKind::Broadcast(n() / 64 * n()), all(0), all(1), on(0))],
        ),
        &[64],
        &[],
    );
}

#[test]
fn a_root_beyond_the_ranks() {
    let buffers = vec![buffer("u", 4, In), buffer("v", 4, InOut)];
    let steps = vec![collective(CollectiveKind::Broadcast(p() / 4), all(0), all(1), on(0))];
    let plan = plan(vec![least(4)], vec![Values::Range(0, 63)], buffers, steps);
    wrong("a root beyond the ranks", plan, &[4], &[&[63]]);
}
