//! Distances to peers that are written as numbers.

use crate::ir::{Expr, Peer, Plan, Step, StepKind};

/// The least and the largest distance along each axis, where all distances are numbers.
pub(super) fn written(plan: &Plan) -> Option<Vec<Vec<(i64, i64)>>> {
    let mut found = vec![(0, 0); plan.axes.len()];
    steps(&plan.steps, &mut found)?;
    Some(found.into_iter().map(|of| vec![of]).collect())
}

fn steps(steps: &[Step], found: &mut [(i64, i64)]) -> Option<()> {
    for step in steps {
        match &step.kind {
            StepKind::Transfer(this) => peer(&this.peer, found)?,
            StepKind::Send(this) => peer(&this.peer, found)?,
            StepKind::Receive(this) => peer(&this.peer, found)?,
            StepKind::Put(this) => peer(&this.peer, found)?,
            StepKind::Signal(this) => peer(&this.peer, found)?,
            StepKind::Wait(this) => {
                this.signals.iter().try_for_each(|awaited| peer(&awaited.peer, found))?;
            }
            _ => self::steps(step.body(), found)?,
        }
    }
    Some(())
}

fn peer(peer: &Peer, found: &mut [(i64, i64)]) -> Option<()> {
    let Peer::Shift(hops) = peer else { return Some(()) };
    for hop in hops {
        let (by, of) = (number(&hop.by)?, found.get_mut(hop.axis.index())?);
        *of = (of.0.min(by), of.1.max(by));
    }
    Some(())
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Int(value) => Some(*value),
        Expr::Add(a, b) => number(a)?.checked_add(number(b)?),
        Expr::Sub(a, b) => number(a)?.checked_sub(number(b)?),
        _ => None,
    }
}
