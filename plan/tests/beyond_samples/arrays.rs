//! Arrays of which the first sizes show only some buffers.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{
    all, array, at, buffer, compute, exactly, group, i, int, least, n, on, p, part, plan, repeat,
    ring, transfer,
};
use crate::wrong::wrong;

#[test]
fn arrays_that_grow() {
    wrong(
        "array: 8 written, p read",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![array("s", p() + 8, 4, Local)],
            vec![
                repeat(0, 8, vec![compute(vec![], vec![at(0, i())], on(0))]),
                repeat(0, p(), vec![compute(vec![at(0, i())], vec![], on(0))]),
            ],
        ),
        &[2],
        &[&[9]],
    );
    wrong(
        "array: 40 written, n read",
        plan(
            vec![least(1)],
            vec![],
            vec![array("s", n() + 40, 4, Local)],
            vec![
                repeat(0, 40, vec![compute(vec![], vec![at(0, i())], on(0))]),
                repeat(0, n(), vec![compute(vec![at(0, i())], vec![], on(0))]),
            ],
        ),
        &[41],
        &[],
    );
    wrong(
        "array: alias i%8 in group",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![buffer("u", 4, In), array("s", p() + 8, 4, InOut)],
            vec![group(vec![repeat(
                0,
                p(),
                vec![transfer(all(0), ring(1), at(1, i() % 8), on(0))],
            )])],
        ),
        &[2],
        &[&[9]],
    );
    wrong(
        "array: lengths i/8",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![array("u", p(), 4 + Expr::Loop(LoopId(1)) / 8, In), buffer("v", 4, InOut)],
            vec![repeat(0, p(), vec![transfer(at(0, i()), ring(1), all(1), on(0))])],
        ),
        &[2],
        &[&[9]],
    );
    wrong(
        "array in scope: read s[i], write s[0..] by n listed",
        plan(
            vec![exactly(2)],
            vec![Values::AtLeast(1)],
            vec![array("s", p() + 4, 4, Local)],
            vec![
                repeat(0, 4, vec![compute(vec![], vec![at(0, i())], on(0))]),
                compute(vec![at(0, p() / 64 + p() / 64 + p() / 64 + p() / 64)], vec![], on(0)),
            ],
        ),
        &[2],
        &[&[64]],
    );
}

#[test]
fn parts_of_each_buffer() {
    wrong(
        "whole array, range by p",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![array("s", p(), 70, InOut)],
            vec![compute(vec![part(0, 0, p())], vec![], on(0))],
        ),
        &[2],
        &[&[71]],
    );
}

#[test]
fn an_array_that_shrinks() {
    let buffers = vec![array("u", int(70) - p(), 4, InOut)];
    let steps = vec![compute(vec![at(0, int(5))], vec![], on(0))];
    wrong(
        "an array that shrinks",
        plan(vec![exactly(2)], vec![least(1)], buffers, steps),
        &[2],
        &[&[66]],
    );
}
