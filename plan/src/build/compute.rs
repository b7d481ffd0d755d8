//! Compute steps: the user's own work, and what it touches.

use super::memory::Memory;
use super::number::Number;
use super::on::On;
use super::{Open, PlanBuilder};
use crate::ir::{Compute, Equation, Reduction, StepKind};

/// A compute step that stands in the plan: what it gets, reads and writes.
///
/// `plan.on(cmp).run("edges").reads(u).writes(u.next().slice(..h))`
#[derive(Debug)]
pub struct Run<'p> {
    plan: &'p mut PlanBuilder<Open>,
}

impl On<'_> {
    /// Work of the user's, by its name.
    #[track_caller]
    pub fn run(&mut self, name: &str) -> Run<'_> {
        self.plan.push(StepKind::Compute(Compute {
            name: name.to_owned(),
            arguments: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            computes: Vec::new(),
            place: self.place.clone(),
        }));
        Run { plan: self.plan }
    }
}

impl Run<'_> {
    /// A number that it gets.
    #[track_caller]
    pub fn argument(self, number: impl Into<Number>) -> Self {
        let number = self.plan.expr(number.into());
        self.edit(|step| step.arguments.push(number))
    }

    /// Memory that it reads.
    #[track_caller]
    pub fn reads(self, memory: impl Memory) -> Self {
        let region = self.plan.region(memory);
        self.edit(|step| step.reads.push(region))
    }

    /// Memory that it writes.
    #[track_caller]
    pub fn writes(self, memory: impl Memory) -> Self {
        let region = self.plan.region(memory);
        self.edit(|step| step.writes.push(region))
    }

    /// What it leaves in region `to` of those that it writes: regions `of` of those that it reads, reduced
    /// element by element; one alone is copied. `.reads(a).reads(b).writes(b).computes(0, Sum, [1, 0])` is `b += a`.
    #[track_caller]
    pub fn computes(
        self,
        to: u32,
        by: impl Into<Reduction>,
        of: impl IntoIterator<Item = u32>,
    ) -> Self {
        let equation = Equation { to, by: by.into(), of: of.into_iter().collect() };
        self.edit(|step| step.computes.push(equation))
    }

    fn edit(self, edit: impl FnOnce(&mut Compute)) -> Self {
        // The step is the last statement: this borrows the builder since it was appended.
        if let Some(StepKind::Compute(step)) = self.plan.last() {
            edit(step);
        }
        self
    }
}
