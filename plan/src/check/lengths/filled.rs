//! Whether a declared region is filled at every size, by parts that lie one after another.

use super::{Lengths, Where, backwards};
use crate::arith::{Facts, View};
use crate::check::coverage::Parts;
use crate::ir::{Coverage, Peer};

impl Lengths<'_> {
    /// Whether a declared region is filled by these, one after another, at every size, and by nothing else: receives
    /// and puts in the order in which they lie. What has no element in it at one size is either a part that is
    /// empty there or lies beside the region, and may do otherwise at another size.
    pub(crate) fn covers(&self, covered: &Coverage, parts: &Parts) -> bool {
        let (touching, elsewhere) = (&parts.touching, &parts.elsewhere);
        let is_beside = |of: &(Where, bool)| self.is_beside(covered, *of);
        let all: Vec<_> = touching.iter().map(|(of, _)| *of).collect();
        let empty = touching.iter().filter(|(_, is_empty)| *is_empty).map(|(of, _)| of);
        let filled: Vec<_> =
            touching.iter().filter(|(_, is_empty)| !is_empty).map(|(of, _)| *of).collect();
        let proved = self.follow(covered, &all)
            || (filled.len() < all.len()
                && self.follow(covered, &filled)
                && empty.into_iter().all(is_beside));
        proved && elsewhere.iter().all(is_beside)
    }

    /// Whether these lie one after another, from the start of the region to its end.
    fn follow(&self, covered: &Coverage, parts: &[(Where, bool)]) -> bool {
        if !self.may_prove() {
            return false;
        }
        let mut facts = Facts::within(self.plan, &self.fuel);
        let owner = facts.rank();
        let Some(whole) = self.span(&facts, &covered.region, &owner) else { return false };
        let mut at = whole.start.clone();
        for &(part, is_computed_by_sender) in parts {
            let Some(&region) = self.regions.get(&part) else { return false };
            if self.loops.get(&part.0).is_some_and(|loops| !loops.is_empty()) {
                return false;
            }
            let Some(view) = self.writer(&mut facts, part, is_computed_by_sender, &owner) else {
                return false;
            };
            let Some(span) = self.span(&facts, region, &view) else { return false };
            if !facts.equal(&at, &span.start) {
                return false;
            }
            at = span.end;
        }
        facts.equal(&at, &whole.end)
    }

    /// Whether a receive or a put has no element in common with a declared region, at any size.
    fn is_beside(&self, covered: &Coverage, (part, by_sender): (Where, bool)) -> bool {
        let Some(&region) = self.regions.get(&part) else { return false };
        if region.next != covered.region.next {
            return true;
        }
        // No loops are around the declared region.
        if self.is_known(&covered.region, u32::MAX) && self.is_known(region, part.0) {
            return true;
        }
        if !self.may_prove() {
            return false;
        }
        let mut facts = Facts::within(self.plan, &self.fuel);
        let owner = facts.rank();
        let Some(view) = self.writer(&mut facts, part, by_sender, &owner) else { return false };
        let view = self.iterations(&mut facts, part.0, view);
        let elsewhere = match (&region.index, &covered.region.index) {
            (Some(x), Some(y)) => facts.different(&facts.poly(x, &view), &facts.poly(y, &owner)),
            _ => false,
        };
        let spans = (self.span(&facts, region, &view), self.span(&facts, &covered.region, &owner));
        elsewhere || matches!(spans, (Some(x), Some(y)) if facts.disjoint(&x, &y))
    }

    /// The rank that computes where something is written in the owner's memory.
    fn writer(
        &self,
        facts: &mut Facts,
        part: Where,
        is_computed_by_sender: bool,
        owner: &View,
    ) -> Option<View> {
        match self.senders.get(&part.0) {
            _ if !is_computed_by_sender => Some(owner.clone()),
            Some(Peer::Shift(hops)) => Some(facts.hop(owner, &backwards(hops))),
            _ => None,
        }
    }
}
