//! Compute steps: the user's own work, and the memory that it uses.

use super::memory::Memory;
use super::number::Number;
use super::on::On;
use super::{Open, PlanBuilder};
use crate::ir::{Compute, Equation, Reduction, StepKind};

/// A compute step in the plan, to which arguments, reads and writes can be added.
///
/// `plan.on(cmp).run("edges").reads(u).writes(u.next().slice(..h))`
#[derive(Debug)]
pub struct Run<'p> {
    plan: &'p mut PlanBuilder<Open>,
}

impl On<'_> {
    /// Adds a step of the user's own work, by name.
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
    /// Adds a numeric argument.
    #[track_caller]
    pub fn argument(self, number: impl Into<Number>) -> Self {
        let number = self.plan.expr(number.into());
        self.edit(|step| step.arguments.push(number))
    }

    /// Adds memory that it reads.
    #[track_caller]
    pub fn reads(self, memory: impl Memory) -> Self {
        let region = self.plan.region(memory);
        self.edit(|step| step.reads.push(region))
    }

    /// Adds memory that it writes.
    #[track_caller]
    pub fn writes(self, memory: impl Memory) -> Self {
        let region = self.plan.region(memory);
        self.edit(|step| step.writes.push(region))
    }

    /// Declares its result in written region `to`: the read regions `of`, reduced element by
    /// element, or a copy if there is only one.
    /// `.reads(a).reads(b).writes(b).computes(0, Sum, [1, 0])` is `b += a`.
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
        // The step is the last statement: this has borrowed the builder since it was appended.
        if let Some(StepKind::Compute(step)) = self.plan.last() {
            edit(step);
        }
        self
    }
}
