//! Regions: their elements, and that they lie inside their buffers.

use super::{Lengths, PROMISE};
use crate::arith::{Facts, Poly, Span, View};
use crate::ir::{Buffer, Location, Region};
use crate::verdict::Check;

impl<'a> Lengths<'a> {
    pub(super) fn buffer(&mut self, buffer: &'a Buffer, facts: &Facts) {
        let mut facts = facts.clone();
        let mut view = View::uniform();
        if let Some(array) = &buffer.array {
            let count = facts.poly(&array.count, &view);
            if !self.is_looked_at(&array.count) && !facts.prove_non_negative(&count) {
                let title = format!("`{}` may have fewer than no buffers", buffer.name);
                self.undecided(Check::Bounds, buffer.at, &title, PROMISE);
            }
            view = facts.index(&view, array.index, &count);
        }
        let len = facts.poly(&buffer.len, &view);
        let fine = facts.has_value(&buffer.len, &view) && facts.prove_non_negative(&len);
        if !self.is_looked_at(&buffer.len) && !fine {
            let title = format!("`{}` may have a length below 0, or none", buffer.name);
            self.undecided(Check::Bounds, buffer.at, &title, PROMISE);
        }
    }

    /// Proves that a region lies inside its buffer.
    pub(super) fn inside(
        &mut self,
        number: u32,
        region: &Region,
        facts: &Facts,
        view: &View,
        at: Location,
    ) {
        let buffer = &self.plan.buffers[region.buffer.index()];
        if let (Some(array), Some(index)) = (&buffer.array, &region.index) {
            let count = facts.poly(&array.count, view);
            let value = facts.poly(index, view);
            let looked_at = self.is_looked_at(index)
                && self.is_looked_at(&array.count)
                && !self.counts(index, number);
            let proved = || {
                facts.has_value(index, view)
                    && facts.at_most(&Poly::zero(), &value)
                    && facts.less(&value, &count)
            };
            if !looked_at && !proved() {
                let title = format!(
                    "whether `{}` has a buffer {} cannot be decided for every size",
                    buffer.name,
                    self.plan.spelled(index)
                );
                self.undecided(Check::Bounds, at, &title, PROMISE);
            }
        }
        let Some((start, end)) = &region.range else { return };
        if self.is_fixed(region, number) {
            return;
        }
        let valued = facts.has_value(start, view) && facts.has_value(end, view);
        let proved = match (self.span(facts, region, view), self.whole(facts, region, view)) {
            (Some(part), Some(whole)) => {
                facts.contained(&part, &whole) && facts.at_most(&part.start, &part.end)
            }
            _ => false,
        };
        if !(valued && proved) {
            let title = format!(
                "whether {}..{} lies inside `{}` cannot be decided for every size",
                self.plan.spelled(start),
                self.plan.spelled(end),
                buffer.name
            );
            self.undecided(Check::Bounds, at, &title, PROMISE);
        }
    }

    fn whole(&self, facts: &Facts, region: &Region, view: &View) -> Option<Span> {
        let buffer = &self.plan.buffers[region.buffer.index()];
        let mut uniform = View::uniform();
        if let Some(array) = &buffer.array {
            let index = facts.poly(region.index.as_ref()?, view);
            uniform = uniform.with(array.index, index);
        }
        Some(Span::to(facts.poly(&buffer.len, &uniform)))
    }

    pub(super) fn span(&self, facts: &Facts, region: &Region, view: &View) -> Option<Span> {
        match &region.range {
            None => self.whole(facts, region, view),
            Some((start, end)) => Some(Span::new(facts.poly(start, view), facts.poly(end, view))),
        }
    }

    pub(super) fn len(&self, facts: &Facts, region: &Region, view: &View) -> Option<Poly> {
        self.span(facts, region, view).map(|span| span.len())
    }
}
