//! What a plan says of an operation, as it is written there.

use super::report::Report;
use crate::ir::{Expr, Location, Peer, Step, StepKind};
use crate::program::{NONE, Op, OpKind, Stride};

/// A half of a message along an open chain.
pub(crate) struct OpenEnd {
    pub(crate) at: Location,
    /// Its peer.
    pub(crate) written: String,
    /// Its memory.
    pub(crate) region: String,
}

impl Report<'_> {
    /// Whether an operation is the receiving end of a transfer whose sender computes where it goes.
    pub(crate) fn is_placed_by_sender(&self, op: &Op) -> bool {
        let step = Step::nth(&self.plan().steps, op.statement);
        let Some(StepKind::Transfer(this)) = step.map(|step| &step.kind) else { return false };
        op.kind == OpKind::Receive && this.to.numbers().any(Expr::mentions_rank)
    }

    /// Where a put writes.
    pub(crate) fn target(&self, op: &Op) -> Option<String> {
        let kind = &Step::nth(&self.plan().steps, op.statement)?.kind;
        Some(format!("`{}`", self.plan().show(kind.communication()?.to?)))
    }

    /// The memory that a message is sent or put from, or received into: `u[..h]`.
    pub(crate) fn region(&self, op: &Op) -> Option<String> {
        let plan = self.plan();
        let this = Step::nth(&plan.steps, op.statement)?.kind.communication()?;
        let region = if op.kind == OpKind::Receive { this.to? } else { this.from? };
        Some(format!("`{}`", plan.show(region)))
    }

    /// The half that a message lacks, where it is written along an open chain.
    pub(crate) fn open_end(&self, op: &Op) -> Option<OpenEnd> {
        if op.shift == NONE {
            return None;
        }
        let plan = self.plan();
        let back = &self.program.shifts[self.program.shifts[op.shift as usize].back as usize];
        let [Stride { axis, by, .. }] = back.hops.as_slice() else { return None };
        for step in Step::all(&plan.steps) {
            let (peer, region) = match &step.kind {
                StepKind::Receive(this) if op.kind == OpKind::Send => (&this.peer, &this.to),
                StepKind::Send(this) if op.kind == OpKind::Receive => (&this.peer, &this.from),
                _ => continue,
            };
            let Peer::Shift(hops) = peer else { continue };
            let [hop] = hops.as_slice() else { continue };
            if hop.wrap || hop.axis.0 != *axis || self.env(0).eval(&hop.by) != Ok(*by) {
                continue;
            }
            // It ends there: where it does not, something else keeps the half away.
            let extent = self.sizes().extents[hop.axis.index()];
            let at = self.program.layout.coordinate(op.peer as usize, hop.axis);
            if (0..extent).contains(&(at + by)) {
                continue;
            }
            let rank = self.coordinate(hop.axis.0);
            let sign = if *by < 0 { '-' } else { '+' };
            let written = format!("{rank} {sign} {}", by.unsigned_abs());
            let region = format!("`{}`", plan.show(region));
            return Some(OpenEnd { at: step.at, written, region });
        }
        None
    }

    /// Whether two statements stand in one block that all ranks run.
    pub(crate) fn are_together(&self, one: Location, other: Location) -> bool {
        together(&self.plan().steps, one, other)
    }
}

fn together(block: &[Step], one: Location, other: Location) -> bool {
    let has = |at| block.iter().any(|step| step.at == at);
    has(one) && has(other)
        || block.iter().any(|step| match &step.kind {
            StepKind::Group(body) => together(body, one, other),
            StepKind::Loop(of) => together(&of.body, one, other),
            _ => false,
        })
}
