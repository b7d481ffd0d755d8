//! More signals and messages in flight than the first sizes have.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{
    all, buffer, compute, exactly, least, on, p, plan, put, r, recv, repeat, ring, send, signal,
    wait, when, windows,
};
use crate::wrong::wrong;

#[test]
fn signals_in_flight() {
    let flight = |bound: Expr| {
        vec![
            wait(0, ring(-1), 6, on(0)),
            compute(vec![all(1)], vec![], on(2)),
            repeat(0, bound.clone(), vec![signal(0, ring(1), on(1)), wait(0, ring(-1), 1, on(0))]),
            repeat(0, 5, vec![signal(0, ring(1), on(1))]),
            put(all(0), ring(1), all(1), 0, on(1)),
        ]
    };
    wrong(
        "in flight p",
        plan(vec![exactly(2)], vec![least(0)], windows(), flight(p())),
        &[2],
        &[&[6]],
    );
    wrong(
        "prefix waits, p",
        plan(
            vec![exactly(2)],
            vec![least(0)],
            windows(),
            vec![
                wait(0, ring(-1), 6, on(0)),
                compute(vec![all(1)], vec![], on(0)),
                repeat(0, p(), vec![signal(0, ring(1), on(1)), wait(0, ring(-1), 1, on(0))]),
                repeat(0, 5, vec![signal(0, ring(1), on(1))]),
                put(all(0), ring(1), all(1), 0, on(1)),
            ],
        ),
        &[2],
        &[&[9]],
    );
    wrong(
        "in flight through a loop",
        plan(
            vec![exactly(2)],
            vec![least(0)],
            windows(),
            vec![
                when(
                    r().eq(1),
                    vec![wait(0, ring(-1), 6, on(0)), compute(vec![all(1)], vec![], on(0))],
                ),
                repeat(
                    0,
                    p(),
                    vec![
                        when(r().eq(0), vec![signal(0, ring(1), on(0))]),
                        when(r().eq(1), vec![wait(0, ring(-1), 1, on(0))]),
                    ],
                ),
                when(
                    r().eq(0),
                    vec![
                        put(all(0), ring(1), all(1), 0, on(0)),
                        repeat(0, 5, vec![signal(0, ring(1), on(0))]),
                    ],
                ),
            ],
        ),
        &[2],
        &[&[6]],
    );
}

#[test]
fn messages_in_flight() {
    // The receives of the loop are of another length from the seventh iteration on.
    let bufs = || vec![buffer("u", 4, In), buffer("v", 4, InOut), buffer("w", 4, InOut)];
    wrong(
        "messages in flight deadlock",
        plan(
            vec![exactly(2)],
            vec![least(0)],
            bufs(),
            vec![
                repeat(0, 6, vec![send(all(0), ring(1), on(1))]),
                repeat(0, p(), vec![recv(all(1), ring(1), on(0)), send(all(0), ring(1), on(0))]),
                repeat(0, 6, vec![recv(all(1), ring(1), on(1))]),
            ],
        ),
        &[2],
        &[&[9]],
    );
}
