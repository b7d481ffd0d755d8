//! Sizes that only some lists, promises or ranges claim.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{
    all, buffer, circle, compute, exactly, group, int, least, n, on, p, part, plan, promise, put,
    recv, repeat, ring, send, two, wait, when, window,
};
use crate::wrong::wrong;

#[test]
fn elements_of_lists() {
    let mut l = plan(
        vec![exactly(4)],
        vec![Values::OneOf(vec![0, 1])],
        two(),
        vec![when(Expr::Element(ParamId(0), Box::new(int(0))).eq(1), circle())],
    );
    l.params[0].count = Some(int(2));
    wrong("list elements", l, &[4], &[&[1, 0]]);
    let mut l = plan(
        vec![least(2)],
        vec![Values::OneOf(vec![0, 1])],
        two(),
        vec![when(Expr::Element(ParamId(0), Box::new(int(0))).eq(1), circle())],
    );
    l.params[0].count = Some(int(2));
    wrong("list elements, n", l, &[4], &[&[1, 0]]);
    let mut l = plan(
        vec![exactly(4)],
        vec![Values::OneOf(vec![0, 1])],
        two(),
        vec![repeat(0, Expr::Element(ParamId(0), Box::new(int(0))), circle())],
    );
    l.params[0].count = Some(int(2));
    wrong("list loop", l, &[4], &[&[1, 0]]);
}

#[test]
fn promises_that_leave_gaps() {
    wrong(
        "promise n%7==2",
        promise(
            plan(
                vec![least(1)],
                vec![],
                two(),
                vec![group(vec![send(all(0), ring(1), on(0)), recv(all(1), ring(1), on(0))])],
            ),
            (n() % 7).eq(2),
        ),
        &[9],
        &[],
    );
    wrong(
        "promise n==2 or n>=50",
        promise(
            plan(
                vec![least(1)],
                vec![],
                two(),
                vec![group(vec![send(all(0), ring(1), on(0)), recv(all(1), ring(1), on(0))])],
            ),
            Condition::Any(vec![n().eq(2), n().ge(50)]),
        ),
        &[50],
        &[],
    );
    wrong(
        "promise p==1 or p>=5000, lists",
        promise(
            plan(
                vec![exactly(2)],
                vec![least(1)],
                vec![buffer("u", p(), In), buffer("v", p(), InOut)],
                vec![group(vec![
                    send(all(0), ring(1), on(0)),
                    recv(part(1, 0, p() - p() / 100), ring(1), on(0)),
                ])],
            ),
            Condition::Any(vec![p().eq(1), p().ge(5000)]),
        ),
        &[2],
        &[&[5000]],
    );
}

#[test]
fn ranges_that_begin_late() {
    wrong(
        "range 34..100, hop 17",
        plan(
            vec![Values::Range(34, 100)],
            vec![],
            vec![window("u", 4, In), window("v", 4, InOut)],
            vec![put(all(0), ring(17), all(1), 0, on(0)), wait(0, ring(17), 1, on(0))],
        ),
        &[35],
        &[],
    );
}

#[test]
fn a_put_far_around_a_ring() {
    let buffers = vec![window("u", 4, In), window("v", 4, InOut)];
    let steps = vec![
        compute(vec![all(1)], vec![], on(0)),
        put(all(0), ring(17), all(1), 0, on(0)),
        wait(0, ring(-17), 1, on(0)),
    ];
    wrong(
        "a put far around a ring",
        plan(vec![Values::Range(17, 100)], vec![], buffers, steps),
        &[20],
        &[],
    );
}
