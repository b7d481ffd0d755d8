//! What is read before all of it is written.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{all, buffer, compute, exactly, int, least, on, p, part, plan, r, repeat, when};
use crate::wrong::wrong;

fn of_scratch(body: Vec<Step>) -> Plan {
    plan(vec![exactly(2)], vec![least(1)], vec![buffer("s", p(), Local)], body)
}

#[test]
fn read_before_a_later_write() {
    wrong(
        "later write",
        of_scratch(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![part(0, 0, p())], vec![], on(0)),
            compute(vec![], vec![part(0, 0, p())], on(0)),
        ]),
        &[2],
        &[&[64]],
    );
    wrong(
        "later whole write",
        of_scratch(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![part(0, 0, p())], vec![], on(0)),
            compute(vec![], vec![all(0)], on(0)),
        ]),
        &[2],
        &[&[64]],
    );
    wrong(
        "later write, whole read",
        of_scratch(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![all(0)], vec![], on(0)),
            compute(vec![], vec![all(0)], on(0)),
        ]),
        &[2],
        &[&[64]],
    );
    wrong(
        "own write",
        of_scratch(vec![
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![part(0, 0, p())], vec![part(0, 0, p())], on(0)),
        ]),
        &[2],
        &[&[64]],
    );
    wrong(
        "write of other copy",
        {
            let mut x = of_scratch(vec![
                compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
                compute(vec![], vec![Region { next: true, ..part(0, 0, p()) }], on(0)),
                compute(vec![part(0, 0, p())], vec![], on(0)),
            ]);
            x.buffers[0].copies = 2;
            x
        },
        &[2],
        &[&[64]],
    );
}

#[test]
fn written_by_some_ranks_or_iterations() {
    wrong(
        "guarded write, rank",
        plan(
            vec![exactly(200)],
            vec![least(1)],
            vec![buffer("s", p(), Local)],
            vec![
                when(r().lt(100), vec![compute(vec![], vec![part(0, 0, p())], on(0))]),
                when(r().ge(100), vec![compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0))]),
                compute(vec![part(0, 0, p())], vec![], on(0)),
            ],
        ),
        &[200],
        &[&[64]],
    );
    wrong(
        "loop of no iterations writes",
        of_scratch(vec![
            repeat(0, int(4) - p(), vec![compute(vec![], vec![part(0, 0, p())], on(0))]),
            compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
            compute(vec![part(0, 0, p())], vec![], on(0)),
        ]),
        &[2],
        &[&[64]],
    );
}

#[test]
fn all_is_read_where_the_last_elements_are_not_written() {
    let steps = vec![
        compute(vec![], vec![part(0, 0, p() - p() / 64)], on(0)),
        compute(vec![all(0)], vec![], on(0)),
    ];
    wrong("all is read where the last elements are not written", of_scratch(steps), &[2], &[&[64]]);
}

#[test]
fn outputs_that_nobody_writes() {
    wrong(
        "output becomes empty",
        plan(
            vec![exactly(2)],
            vec![least(1)],
            vec![buffer("u", 4, In), buffer("v", p(), Out)],
            vec![repeat(0, int(70) - p(), vec![compute(vec![all(0)], vec![all(1)], on(0))])],
        ),
        &[2],
        &[&[70]],
    );
}
