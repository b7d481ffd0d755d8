//! Statements that contain statements.

use super::guard::Guard;
use super::number::Number;
use super::on::On;
use super::span::Count;
use super::{Open, PlanBuilder, id};
use crate::ir::shape::{DEEP_STEP, LARGE_PLAN};
use crate::ir::{Around, Condition, Each, Loop, LoopId, MOST_NESTING, Named, Step, StepKind, When};

impl PlanBuilder<Open> {
    /// Communication that NCCL launches as one.
    #[track_caller]
    pub fn group(&mut self, body: impl FnOnce(&mut Self)) {
        let body = self.block(body);
        self.push(StepKind::Group(body));
    }

    /// Statements in rank order: a rank receives from lower ranks before its own statements, and
    /// from higher ranks after them. Contains compute steps and transfers along chains.
    #[track_caller]
    pub fn sequence(&mut self, body: impl FnOnce(&mut Self)) {
        let body = self.block(body);
        self.push(StepKind::Sequence(body));
    }

    /// Statements for the ranks on which the condition holds.
    #[track_caller]
    pub fn when(&mut self, condition: Guard, body: impl FnOnce(&mut Self)) {
        let condition = self.condition(condition);
        self.state.around.push(Around::When(condition.clone()));
        let body = self.block(body);
        self.state.around.pop();
        self.push(StepKind::When(When { condition, body }));
    }

    /// Statements for every number of the range: `plan.for_each("i", ..mb, |plan, i| ..)`; or for
    /// every power: `plan.for_each("d", powers(2, n), |plan, d| ..)`.
    #[track_caller]
    pub fn for_each(
        &mut self,
        counter: &str,
        range: impl Count,
        body: impl FnOnce(&mut Self, Number),
    ) {
        self.counted(counter, range, false, body);
    }

    /// Statements for every number of the range, from the last to the first.
    #[track_caller]
    pub fn for_each_reversed(
        &mut self,
        counter: &str,
        range: impl Count,
        body: impl FnOnce(&mut Self, Number),
    ) {
        self.counted(counter, range, true, body);
    }

    #[track_caller]
    pub(crate) fn condition(&mut self, guard: Guard) -> Condition {
        let parts = guard.shape.map_or(1, |shape| shape.parts);
        if !self.has_room(parts) {
            self.fault(LARGE_PLAN);
            return Condition::All(Vec::new());
        }
        match guard.condition(self.stamp()) {
            Ok(condition) => condition,
            Err(why) => {
                self.fault(why);
                Condition::All(Vec::new())
            }
        }
    }

    #[track_caller]
    fn counted(
        &mut self,
        counter: &str,
        range: impl Count,
        reverse: bool,
        body: impl FnOnce(&mut Self, Number),
    ) {
        let (each, value) = self.each(counter, range);
        self.state.around.push(Around::Each(each.clone()));
        let body = self.block(|plan| body(plan, value));
        self.state.around.pop();
        let Each { counter, from, to, powers } = each;
        self.push(StepKind::Loop(Loop { counter, from, to, powers, reverse, body }));
    }

    /// A counter of that name, or a variant of it: counters in a plan have unique names, but two
    /// loops of a program may both count `i`.
    #[track_caller]
    pub(crate) fn counter(&mut self, name: &str) -> LoopId {
        let at = self.here();
        let taken = &mut self.state.counters;
        let mut own = name.to_owned();
        // A plan may have thousands of loops over `i`: the search goes on where it ended.
        if let Some(mut number) = taken.get(name).copied() {
            while taken.contains_key(&own) {
                number += 1;
                own = format!("{name}_{number}");
            }
            taken.insert(name.to_owned(), number);
        }
        taken.insert(own.clone(), 1);
        self.plan.counters.push(Named { name: own, at });
        LoopId(id(&self.plan.counters))
    }

    /// The statements that `body` appends, removed from the plan again. Beyond the limit of depth
    /// `body` is not called.
    #[track_caller]
    fn block(&mut self, body: impl FnOnce(&mut Self)) -> Vec<Step> {
        if self.state.depth + 1 == MOST_NESTING {
            self.fault(DEEP_STEP);
            return Vec::new();
        }
        let before = self.plan.steps.len();
        self.state.depth += 1;
        body(self);
        self.state.depth -= 1;
        self.plan.steps.split_off(before)
    }
}

impl On<'_> {
    /// Communication that NCCL launches as one, all on this stream:
    /// `plan.on(net).group(|net| { net.send(x, chain(1)); net.receive(y, chain(1)); })`.
    #[track_caller]
    pub fn group(&mut self, body: impl FnOnce(&mut On<'_>)) {
        let (place, among) = (self.place.clone(), self.among);
        self.plan.group(|plan| body(&mut On { plan, place, among }));
    }

    /// Statements for the ranks on which the condition holds, on this stream.
    #[track_caller]
    pub fn when(&mut self, condition: Guard, body: impl FnOnce(&mut On<'_>)) {
        let (place, among) = (self.place.clone(), self.among);
        self.plan.when(condition, |plan| body(&mut On { plan, place, among }));
    }

    /// Statements for every number of the range, on this stream.
    #[track_caller]
    pub fn for_each(
        &mut self,
        counter: &str,
        range: impl Count,
        body: impl FnOnce(&mut On<'_>, Number),
    ) {
        let (place, among) = (self.place.clone(), self.among);
        self.plan.for_each(counter, range, |plan, i| body(&mut On { plan, place, among }, i));
    }
}
