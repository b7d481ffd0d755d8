//! Both ends of a message have one length.

use super::{Lengths, PROMISE, TRANSFER};
use crate::arith::{Facts, View};
use crate::ir::{Expr, Location, Region};
use crate::verdict::Check;

impl Lengths<'_> {
    /// Proves that two regions have one length.
    pub(super) fn alike(
        &mut self,
        number: u32,
        (a, a_view): (&Region, &View),
        (b, b_view): (&Region, &View),
        facts: &Facts,
        at: Location,
    ) {
        let lens = (self.len(facts, a, a_view), self.len(facts, b, b_view));
        if self.is_known(a, number) && self.is_known(b, number) {
            return;
        }
        if !matches!(&lens, (Some(a), Some(b)) if facts.equal(a, b)) {
            let title = "whether both sides have one length cannot be decided for every size";
            self.undecided(Check::Agreement, at, title, PROMISE);
        }
    }

    /// Proves that a half in the local view is as long as all others are, on every rank: which one it meets
    /// depends on the order of the calls.
    pub(super) fn half(
        &mut self,
        number: u32,
        region: &Region,
        facts: &Facts,
        view: &View,
        at: Location,
    ) {
        let known = self.is_known(region, number);
        let Some(len) = self.len(facts, region, view) else { return };
        let on_all_ranks = || {
            let mut elsewhere = facts.clone();
            let other = self.another_rank(&mut elsewhere, view);
            let theirs = self.len(&elsewhere, region, &other);
            theirs.is_some_and(|theirs| elsewhere.equal(&theirs, &len))
        };
        if !known && !on_all_ranks() {
            let title =
                "whether messages have one length on all ranks cannot be decided for every size";
            return self.undecided(Check::Agreement, at, title, TRANSFER);
        }
        let Some((other, all_known)) = &mut self.halves else {
            self.halves = Some((len, known));
            return;
        };
        *all_known &= known;
        if !*all_known && !facts.equal(&len, other) {
            let title =
                "whether messages have one length at both ends cannot be decided for every size";
            self.undecided(Check::Agreement, at, title, TRANSFER);
        }
    }

    /// Another rank, in the same iterations.
    pub(super) fn another_rank(&self, facts: &mut Facts, view: &View) -> View {
        let other = facts.rank();
        self.around.iter().fold(other, |other, around| {
            other.with(around.counter, facts.poly(&Expr::Loop(around.counter), view))
        })
    }
}
