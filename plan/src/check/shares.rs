//! The ranks' shares of a whole, as a plan writes them: help with a collective whose share is
//! elsewhere, or of another length.

use super::report::Report;
use crate::ir::{BufferId, Collective, Expr, Plan, Region, Step, StepKind};
use crate::program::Op;

/// A collective of a plan, one of whose regions is a rank's part of the other.
pub(super) struct Shares<'a> {
    plan: &'a Plan,
    part: &'a Region,
    whole: &'a Region,
    /// How many parts there are.
    size: Expr,
    /// Which one is this rank's, as it is written.
    rank: String,
    sends_part: bool,
}

impl<'a> Shares<'a> {
    /// `None` if no region is a part of the other, or if no plain name identifies the part.
    pub(super) fn of(op: &Op, report: &Report<'a>) -> Option<Self> {
        let plan = report.plan();
        let StepKind::Collective(this) = &Step::nth(&plan.steps, op.statement)?.kind else {
            return None;
        };
        let (part, whole, sends_part) = match this.kind.spec().wholes() {
            (false, true) => (&this.send, &this.recv, true),
            (true, false) => (&this.recv, &this.send, false),
            _ => return None,
        };
        let (size, rank) = members(this, report)?;
        Some(Self { plan, part, whole, size, rank, sends_part })
    }

    /// The part at its own place: "send `b.chunk(n, rank)`".
    pub(super) fn own_place(&self) -> String {
        let verb = if self.sends_part { "send" } else { "receive into" };
        let (whole, size) = (self.plan.show(self.whole), self.plan.show(&self.size));
        format!("{verb} `{whole}.chunk({size}, {})`", self.rank)
    }

    /// What makes the whole as long as its parts.
    pub(super) fn lengths(&self) -> Option<String> {
        let plan = self.plan;
        let size = plan.show(&self.size);
        let len = |of: BufferId| &plan.buffers[of.index()].len;
        if [self.part, self.whole].iter().any(|region| len(region.buffer).mentions_rank()) {
            return None;
        }
        // A part that is rounded down is one of equal parts where nothing is left over.
        if let Some((_, end)) = &self.part.range
            && let Some((whole, by)) = divided(end)
            && *by == self.size
            && whole == len(self.whole.buffer)
        {
            return Some(format!("declare `where {} % {size} == 0`", factor(plan, whole)));
        }
        if self.part.range.is_some() || self.whole.range.is_some() || self.part.index.is_some() {
            return None;
        }
        let buffer = &plan.buffers[self.whole.buffer.index()];
        if buffer.array.is_some() || self.part.buffer == self.whole.buffer {
            return None;
        }
        Some(format!(
            "declare `{}` with room for all parts: `[{}; {size} * {}]`",
            buffer.name,
            buffer.element,
            factor(plan, len(self.part.buffer))
        ))
    }
}

/// A number as it stands beside `*` or `%`.
fn factor(plan: &Plan, number: &Expr) -> String {
    let text = plan.show(number);
    match number {
        Expr::Int(_) | Expr::Param(_) | Expr::Extent(_) | Expr::Size | Expr::Element(..) => text,
        _ => format!("({text})"),
    }
}

/// Of `(i + 1) * (whole / parts)`: the whole, and into how many parts it falls.
fn divided(end: &Expr) -> Option<(&Expr, &Expr)> {
    match end {
        Expr::Div(whole, parts) => Some((whole, parts)),
        Expr::Mul(_, each) => divided(each),
        _ => None,
    }
}

/// How many members there are, and which one this rank is.
fn members(this: &Collective, report: &Report<'_>) -> Option<(Expr, String)> {
    let plan = report.plan();
    match plan.communicators[this.among.index()].axes.as_slice() {
        [only] => Some((Expr::Extent(*only), report.coordinate(only.0))),
        all if all.len() == plan.axes.len() => Some((Expr::Size, "rank".to_owned())),
        _ => None,
    }
}
