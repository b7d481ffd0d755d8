//! Whether what is put may meet another use of the same memory, at sizes that were not looked at.

use super::{Lengths, Where, backwards};
use crate::arith::{Facts, View};
use crate::ir::Peer;

impl Lengths<'_> {
    /// Whether the target of a put may have elements in common with another region of the same object, for
    /// some sizes, though it had none at those that were looked at.
    pub(crate) fn may_overlap(&self, put: Where, other: Where, other_is_put: bool) -> bool {
        let (Some(&target), Some(&region)) = (self.regions.get(&put), self.regions.get(&other))
        else {
            return true;
        };
        if self.is_fixed(target, put.0) && self.is_fixed(region, other.0) {
            return false;
        }
        if !self.may_prove() {
            return true;
        }
        let mut facts = Facts::within(self.plan, &self.fuel);
        // The rank into whose window is put, and who puts there.
        let owner = facts.rank();
        let from = |facts: &mut Facts, statement: u32, owner: &View| -> Option<View> {
            match self.peers.get(&statement) {
                Some(Peer::Shift(hops)) => Some(facts.hop(owner, &backwards(hops))),
                Some(Peer::Rank(_)) => None,
                None => Some(owner.clone()),
            }
        };
        let Some(source) = from(&mut facts, put.0, &owner) else { return true };
        let reader = if other_is_put { from(&mut facts, other.0, &owner) } else { Some(owner) };
        let Some(reader) = reader else { return true };
        let source = self.iterations(&mut facts, put.0, source);
        let reader = self.iterations(&mut facts, other.0, reader);
        let (Some(a), Some(b)) =
            (self.span(&facts, target, &source), self.span(&facts, region, &reader))
        else {
            return true;
        };
        !facts.disjoint(&a, &b)
    }

    pub(super) fn iterations(&self, facts: &mut Facts, statement: u32, mut view: View) -> View {
        for around in self.loops.get(&statement).into_iter().flatten() {
            view = facts.enter(&view, around);
        }
        view
    }
}
