//! What means only numbers that were all looked at: then nothing is left to prove.

use super::{Fixed, Lengths};
use crate::ir::{Expr, Region};

impl Lengths<'_> {
    /// Whether an expression means only numbers that were all looked at.
    pub(super) fn is_looked_at(&self, expr: &Expr) -> bool {
        let Fixed { params, axes } = &self.fixed;
        !expr.any(|part| match part {
            Expr::Param(id) | Expr::Element(id, _) => !params[id.index()],
            Expr::Extent(axis) | Expr::Coordinate(axis) => !axes[axis.index()],
            Expr::Size | Expr::Rank => axes.contains(&false),
            // A counter's values are those of its loop, whose bounds are structure.
            _ => false,
        })
    }

    /// Whether a region of a statement is the same elements, or all of them, at every size that was not
    /// looked at.
    pub(super) fn is_fixed(&self, region: &Region, statement: u32) -> bool {
        let len = &self.plan.buffers[region.buffer.index()].len;
        let looked_at = |expr: &Expr| self.is_looked_at(expr) && !self.counts(expr, statement);
        if !region.index.as_ref().is_none_or(looked_at) {
            return false;
        }
        match &region.range {
            None => true,
            Some((start, end)) => looked_at(start) && looked_at(end) && self.is_looked_at(len),
        }
    }

    /// Whether a region's length was looked at in all cases.
    pub(super) fn is_known(&self, region: &Region, statement: u32) -> bool {
        let buffer = &self.plan.buffers[region.buffer.index()];
        let alike = buffer.array.as_ref().is_none_or(|array| {
            self.is_looked_at(&array.count)
                || !buffer.len.any(|part| *part == Expr::Loop(array.index))
        });
        self.is_fixed(region, statement)
            && (region.range.is_some() || (alike && self.is_looked_at(&buffer.len)))
    }

    /// Whether an expression counts the iterations of a loop of which only the first were looked at.
    pub(super) fn counts(&self, expr: &Expr, statement: u32) -> bool {
        self.loops.get(&statement).into_iter().flatten().any(|around| {
            !(self.is_looked_at(&around.from) && self.is_looked_at(&around.to))
                && expr.any(|part| *part == Expr::Loop(around.counter))
        })
    }
}
