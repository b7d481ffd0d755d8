//! Divisions by what is 0 at one size.

use typed_nccl_plan::ir::*;

use crate::words::{compute, int, least, n, on, plan, r, two, when};
use crate::wrong::wrong;

#[test]
fn divisions_by_zero() {
    wrong(
        "arguments divide by zero",
        {
            let mut x = plan(vec![least(1)], vec![], two(), vec![compute(vec![], vec![], on(0))]);
            if let StepKind::Compute(c) = &mut x.steps[0].kind {
                c.arguments.push(int(1) / (n() - 50));
            }
            x
        },
        &[50],
        &[],
    );
    wrong(
        "guard divides by zero, rank",
        plan(
            vec![least(1)],
            vec![],
            two(),
            vec![when((int(1) / (r() - 50)).lt(5), vec![compute(vec![], vec![], on(0))])],
        ),
        &[51],
        &[],
    );
}
