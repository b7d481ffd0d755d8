//! Groups: operations that have no order do not touch the same elements where one writes.

use super::{Lengths, PROMISE, Seen};
use crate::arith::Facts;
use crate::ir::Location;
use crate::verdict::Check;

impl Lengths<'_> {
    /// Proves that operations of one group do not touch the same elements where one writes.
    pub(super) fn aliases(&mut self, seen: &[Seen<'_>], facts: &Facts) {
        for (i, a) in seen.iter().enumerate() {
            if !self.may_compare(seen.len() - i, a.at) {
                return;
            }
            for b in &seen[i + 1..] {
                // A collective's own two regions are its own matter.
                if a.leaf != b.leaf || !self.collectives.contains(&a.leaf) {
                    self.alias(a, b, facts);
                }
            }
        }
    }

    /// Whether one more may be compared with so many; told where not.
    pub(super) fn may_compare(&mut self, others: usize, at: Location) -> bool {
        let may = self.fuel.take(others as u64 / 8);
        if !may {
            let title = "comparing the operations of this group is more than what is checked";
            self.undecided(Check::Groups, at, title, "make several groups");
        }
        may
    }

    pub(super) fn alias(&mut self, a: &Seen<'_>, b: &Seen<'_>, facts: &Facts) {
        if a.region.buffer != b.region.buffer
            || a.region.next != b.region.next
            || !(a.writes || b.writes)
            || (self.is_fixed(a.region, a.leaf) && self.is_fixed(b.region, b.leaf))
        {
            return;
        }
        // Of two regions that are received, the conditions are those of the senders.
        let anywhere = self.anywhere.as_ref().filter(|_| a.elsewhere && b.elsewhere);
        let facts = anywhere.unwrap_or(facts);
        let elsewhere = match (&a.region.index, &b.region.index) {
            (Some(x), Some(y)) => facts.different(&facts.poly(x, &a.view), &facts.poly(y, &b.view)),
            _ => false,
        };
        let spans = (self.span(facts, a.region, &a.view), self.span(facts, b.region, &b.view));
        if elsewhere || matches!(spans, (Some(x), Some(y)) if facts.disjoint(&x, &y)) {
            return;
        }
        let name = &self.plan.buffers[a.region.buffer.index()].name;
        let title = format!(
            "whether two operations of a group touch the same elements of `{name}` cannot be decided for \
             every size"
        );
        self.undecided(Check::Groups, b.at, &title, PROMISE);
    }
}
