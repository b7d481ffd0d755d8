//! What only some ranks do, and no rank of the first sizes.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{
    all, buffer, collective, compute, exactly, hop, int, least, n, on, plan, put, r, recv, ring,
    send, signal, two, wait, when, windows,
};
use crate::wrong::wrong;

#[test]
fn compute_steps_of_later_ranks() {
    let mesh = || vec![exactly(2), least(1)];
    let y = || Expr::Coordinate(AxisId(1));
    let exchange = || {
        vec![
            send(all(0), hop(0, 1, true), on(0)),
            compute(vec![all(2)], vec![all(2)], on(0)),
            when(y().ge(100), vec![compute(vec![all(2)], vec![all(2)], on(1))]),
            recv(all(1), hop(0, 1, true), on(1)),
        ]
    };
    let mut b = two();
    b.push(buffer("w", 4, InOut));
    wrong("order by guarded compute", plan(mesh(), vec![], b, exchange()), &[2, 101], &[]);
    wrong(
        "guarded write then read",
        plan(
            vec![least(2)],
            vec![],
            vec![buffer("s", 4, Local)],
            vec![
                when(r().lt(100), vec![compute(vec![], vec![all(0)], on(0))]),
                compute(vec![all(0)], vec![], on(0)),
            ],
        ),
        &[101],
        &[],
    );
}

#[test]
fn reads_of_one_rank() {
    let race = |cond: Condition| {
        vec![
            signal(1, ring(-1), on(0)),
            wait(1, ring(1), 1, on(0)),
            put(all(0), ring(1), all(1), 0, on(0)),
            when(cond, vec![compute(vec![all(1)], vec![], on(1))]),
            wait(0, ring(-1), 1, on(0)),
            compute(vec![all(1)], vec![], on(0)),
        ]
    };
    wrong(
        "guarded read r==3, n>=10",
        plan(vec![least(10)], vec![], windows(), race(r().eq(3))),
        &[10],
        &[],
    );
    wrong(
        "guarded read r==100",
        plan(vec![least(1)], vec![], windows(), race(r().eq(100))),
        &[101],
        &[],
    );
}

#[test]
fn roots_in_the_middle() {
    let steps = |root: Expr| {
        vec![
            compute(vec![all(1)], vec![all(3)], on(0)),
            collective(CollectiveKind::Broadcast(root), all(2), all(3), on(0)),
            put(all(0), ring(1), all(1), 0, on(0)),
            wait(0, ring(-1), 1, on(0)),
        ]
    };
    let buffers = || {
        let mut buffers = windows();
        buffers.extend([buffer("c", 4, In), buffer("d", 4, InOut)]);
        buffers
    };
    wrong("root n/2", plan(vec![least(10)], vec![], buffers(), steps(n() / 2)), &[20], &[]);
    wrong("root 5", plan(vec![least(10)], vec![], buffers(), steps(int(5))), &[20], &[]);
}
