//! What a plan claims that memory holds at the end of a run.

use super::guard::Guard;
use super::memory::Part;
use super::number::Number;
use super::peer::Peer;
use super::span::Count;
use super::{Open, PlanBuilder};
use crate::ir::{self, Around, Claim, Each, Expr, Reduction, Region, Source, StepKind};

/// What memory is made of: in a claim, regions of ranks as the caller filled them; in
/// [`gathered`](super::On::gathered), as they are when it runs.
#[derive(Debug)]
pub struct Sources<'a> {
    plan: &'a mut PlanBuilder<Open>,
    around: Vec<Around>,
    all: Vec<Source>,
}

impl PlanBuilder<Open> {
    /// Claims that at the end of a run each element of `to` is the reduction of those of the
    /// sources in its place, with their content at the start: `plan.holds(b, Sum, |of| of.rank(a,
    /// chain(-1)))` is `computes b = a of rank - 1` in `plan!`. A single source is copied.
    ///
    /// Numbers are those of the rank that holds `to`, also in regions of other ranks. A source of a
    /// rank past the end of a chain is left out; without any source, `to` keeps its content. In
    /// [`for_each`](Self::for_each) and [`when`](Self::when), it is claimed for each turn, and
    /// where the condition holds.
    #[track_caller]
    pub fn holds<A: Part>(
        &mut self,
        to: A,
        by: impl Into<Reduction>,
        of: impl FnOnce(&mut Sources<'_>),
    ) {
        let claim = self.claim(to, by.into(), of);
        let around = self.state.around.clone();
        self.plan.claims.push(Claim { around, ..claim });
    }

    /// Claims the same of this place among the statements: of what the rank's statements so far
    /// leave, whatever their streams. It is for the checker alone, and runs nothing.
    ///
    /// Sources with [`in_out`](Self::in_out) and input memory are meant as a run begins, others as
    /// their rank has them at this statement. Without any source, nothing is claimed.
    #[track_caller]
    pub fn holds_here<A: Part>(
        &mut self,
        to: A,
        by: impl Into<Reduction>,
        of: impl FnOnce(&mut Sources<'_>),
    ) {
        let claim = self.claim(to, by.into(), of);
        self.push(StepKind::Here(claim));
    }

    #[track_caller]
    fn claim<A: Part>(&mut self, to: A, by: Reduction, of: impl FnOnce(&mut Sources<'_>)) -> Claim {
        let (at, to) = (self.here(), self.region(to));
        let of = Sources::collect(self, of);
        Claim { around: Vec::new(), to, by, of, at }
    }
}

impl<'a> Sources<'a> {
    pub(super) fn collect(
        plan: &'a mut PlanBuilder<Open>,
        of: impl FnOnce(&mut Self),
    ) -> Vec<Source> {
        let mut sources = Self { plan, around: Vec::new(), all: Vec::new() };
        of(&mut sources);
        sources.all
    }
}

impl Sources<'_> {
    /// A region of this rank.
    #[track_caller]
    pub fn own<A: Part>(&mut self, region: A) {
        let region = self.plan.region(region);
        self.push(region, ir::Peer::Shift(Vec::new()));
    }

    /// A region of another rank.
    #[track_caller]
    pub fn rank<A: Part>(&mut self, region: A, rank: Peer) {
        let (region, rank) = (self.plan.region(region), self.plan.peer(rank));
        self.push(region, rank);
    }

    /// Sources for every number of a range.
    #[track_caller]
    pub fn for_each(
        &mut self,
        counter: &str,
        range: impl Count,
        body: impl FnOnce(&mut Self, Number),
    ) {
        let (each, value) = self.plan.each(counter, range);
        self.around.push(Around::Each(each));
        body(self, value);
        self.around.pop();
    }

    /// Sources where the condition holds.
    #[track_caller]
    pub fn when(&mut self, condition: Guard, body: impl FnOnce(&mut Self)) {
        let condition = self.plan.condition(condition);
        self.around.push(Around::When(condition));
        body(self);
        self.around.pop();
    }

    fn push(&mut self, region: Region, rank: ir::Peer) {
        self.all.push(Source { around: self.around.clone(), region, rank });
    }
}

impl PlanBuilder<Open> {
    /// What a loop counts through, and its counter.
    #[allow(clippy::manual_map, reason = "a closure would hide the caller")]
    #[track_caller]
    pub(super) fn each(&mut self, counter: &str, range: impl Count) -> (Each, Number) {
        let (from, to, base) = range.bounds();
        let (from, to) = (self.expr(from), self.expr(to));
        let powers = match base {
            Some(base) => Some(self.expr(base)),
            None => None,
        };
        let counter = self.counter(counter);
        let value = Number(self.stamp().push(Expr::Loop(counter)));
        (Each { counter, from, to, powers }, value)
    }
}
