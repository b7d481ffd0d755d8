//! Two communicators, in an order that some ranks do not keep.

use typed_nccl_plan::ir::Role::*;
use typed_nccl_plan::ir::*;

use crate::words::{
    after, all, buffer, collective, compute, exactly, hop, int, least, n, on, plan, r, recv,
    repeat, send, when,
};
use crate::wrong::wrong;

/// The step, among the second communicator.
fn w2(mut step: Step) -> Step {
    match &mut step.kind {
        StepKind::Send(this) => this.among = CommunicatorId(1),
        StepKind::Receive(this) => this.among = CommunicatorId(1),
        StepKind::Collective(this) => this.among = CommunicatorId(1),
        _ => {}
    }
    step
}

/// The plan with a second communicator of all ranks.
fn with2(mut plan: Plan, implicit: bool) -> Plan {
    let world = plan.communicators[0].clone();
    plan.communicators.push(Communicator { name: "second".into(), ..world });
    if implicit {
        plan.order = Order::Implicit;
    }
    plan
}

/// Some ranks order their second stream after the first.
fn guard(condition: Condition) -> Step {
    when(condition, vec![compute(vec![], vec![], after(1, 0))])
}

fn bufs() -> Vec<Buffer> {
    vec![buffer("u", 4, In), buffer("v", 4, InOut), buffer("w", 4, InOut), buffer("t", 4, InOut)]
}

#[test]
fn waits_in_a_circle() {
    let x = || Expr::Coordinate(AxisId(0));
    let y = || Expr::Coordinate(AxisId(1));
    wrong(
        "deadlock by guarded compute y>=100",
        with2(
            plan(
                vec![exactly(2), least(1)],
                vec![],
                bufs(),
                vec![
                    when(
                        x().eq(0),
                        vec![
                            send(all(0), hop(0, 1, true), on(0)),
                            guard(y().ge(100)),
                            w2(recv(all(1), hop(0, 1, true), on(1))),
                        ],
                    ),
                    when(
                        x().eq(1),
                        vec![
                            w2(send(all(0), hop(0, 1, true), on(0))),
                            guard(y().ge(100)),
                            recv(all(1), hop(0, 1, true), on(1)),
                        ],
                    ),
                ],
            ),
            true,
        ),
        &[2, 101],
        &[],
    );
}

#[test]
fn calls_in_another_order() {
    wrong(
        "A7 by guarded compute r<100",
        with2(
            plan(
                vec![least(1)],
                vec![],
                bufs(),
                vec![
                    collective(CollectiveKind::AllReduce(Reduction::Sum), all(0), all(1), on(0)),
                    guard(r().lt(100)),
                    w2(collective(
                        CollectiveKind::AllReduce(Reduction::Sum),
                        all(0),
                        all(2),
                        on(1),
                    )),
                ],
            ),
            false,
        ),
        &[101],
        &[],
    );
    wrong(
        "A7 by loop 64/(n)",
        with2(
            plan(
                vec![least(1)],
                vec![],
                bufs(),
                vec![
                    collective(CollectiveKind::AllReduce(Reduction::Sum), all(0), all(1), on(0)),
                    repeat(0, int(64) - n(), vec![compute(vec![], vec![], after(1, 0))]),
                    w2(collective(
                        CollectiveKind::AllReduce(Reduction::Sum),
                        all(0),
                        all(2),
                        on(1),
                    )),
                ],
            ),
            false,
        ),
        &[64],
        &[],
    );
}
