//! What statements are called in a reason.

use crate::ir::{Compute, Plan, Step, StepKind};
use crate::program::{OpKind, Program};

/// Names of a plan's statements, by number.
pub(super) struct Words<'a> {
    plan: &'a Plan,
    computes: Vec<Option<&'a Compute>>,
}

impl<'a> Words<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        fn walk<'a>(steps: &'a [Step], computes: &mut Vec<Option<&'a Compute>>) {
            for step in steps {
                computes.push(match &step.kind {
                    StepKind::Compute(this) => Some(this),
                    _ => None,
                });
                walk(step.body(), computes);
            }
        }
        let mut computes = Vec::new();
        walk(&plan.steps, &mut computes);
        Self { plan, computes }
    }

    /// A unit: its name or what it does, and its line.
    pub(super) fn unit(&self, program: &Program, unit: u32) -> String {
        let of = &program.units[unit as usize];
        let line = program.at(unit as usize).line;
        let what = match (self.compute(of.statement), program.ops_of(of)) {
            (Some(name), _) => format!("`{name}`"),
            (None, [op]) => match op.kind {
                OpKind::Send => "the send".to_owned(),
                OpKind::Receive => "the receive".to_owned(),
                OpKind::Put => "the put".to_owned(),
                OpKind::Signal => "the signal".to_owned(),
                OpKind::Wait => "the wait".to_owned(),
                OpKind::Collective(kind) => format!("the {}", kind.name()),
                OpKind::Read | OpKind::Write => "the compute step".to_owned(),
            },
            (None, ops) if ops.iter().all(|op| op.kind == OpKind::Wait) => "the wait".to_owned(),
            (None, _) => "the group".to_owned(),
        };
        if line == 0 { what } else { format!("{what} in line {line}") }
    }

    /// A compute step's name.
    pub(super) fn compute(&self, statement: u32) -> Option<&'a str> {
        self.computes.get(statement as usize).copied().flatten().map(|this| this.name.as_str())
    }

    /// How many regions a compute step reads, and how many it writes.
    pub(super) fn regions(&self, statement: u32) -> (usize, usize) {
        let this = self.computes.get(statement as usize).copied().flatten();
        this.map_or((0, 0), |this| (this.reads.len(), this.writes.len()))
    }

    pub(super) fn stream(&self, stream: u16) -> &'a str {
        &self.plan.streams[usize::from(stream)].name
    }

    /// The buffer that an object belongs to.
    pub(super) fn buffer(&self, program: &Program, object: u32) -> &'a str {
        &self.plan.buffers[program.objects.all[object as usize].buffer.index()].name
    }
}
