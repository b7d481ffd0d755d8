//! Names of statements in reasons.

use crate::ir::{LocalWork, Plan, Step};
use crate::program::{OpKind, Program, Span};

/// Names of a plan's statements, by number.
pub(super) struct Words<'a> {
    plan: &'a Plan,
    works: Vec<Option<LocalWork<'a>>>,
}

impl<'a> Words<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self { plan, works: Step::local_works(&plan.steps) }
    }

    /// A unit: its name or its operation, and its line.
    pub(super) fn unit(&self, program: &Program, unit: u32) -> String {
        let of = &program.units[unit as usize];
        let line = program.at(unit as usize).line;
        let what = match (self.work(of.statement), program.ops_of(of)) {
            (Some(LocalWork { name: Some(name), .. }), _) => format!("`{name}`"),
            (Some(_), _) => "the assignment".to_owned(),
            (None, [op]) => match op.kind {
                OpKind::Send => "the send".to_owned(),
                OpKind::Receive => "the receive".to_owned(),
                OpKind::Put => "the put".to_owned(),
                OpKind::Signal => "the signal".to_owned(),
                OpKind::Wait => "the wait".to_owned(),
                OpKind::Collective(kind) => format!("the {}", kind.name()),
                OpKind::Read | OpKind::Write | OpKind::Get => "the compute step".to_owned(),
            },
            (None, ops) if ops.iter().all(|op| op.kind == OpKind::Wait) => "the wait".to_owned(),
            (None, _) => "the group".to_owned(),
        };
        if line == 0 { what } else { format!("{what} in line {line}") }
    }

    /// The local work of a statement.
    pub(super) fn work(&self, statement: u32) -> Option<&LocalWork<'a>> {
        self.works.get(statement as usize)?.as_ref()
    }

    pub(super) fn stream(&self, stream: u16) -> &'a str {
        &self.plan.streams[usize::from(stream)].name
    }

    /// Elements of a buffer.
    pub(super) fn span(&self, program: &Program, span: Span) -> String {
        let object = &program.objects.all[span.object as usize];
        let buffer = &self.plan.buffers[object.buffer.index()];
        let index = buffer.array.as_ref().map(|_| format!("[{}]", object.index));
        let index = index.unwrap_or_default();
        let range = (object.len.same() != Some(span.len()))
            .then(|| format!("[{}..{}]", span.start, span.end));
        format!("`{}{index}{}`", buffer.name, range.unwrap_or_default())
    }

    /// The buffer that an object belongs to.
    pub(super) fn buffer(&self, program: &Program, object: u32) -> &'a str {
        &self.plan.buffers[program.objects.all[object as usize].buffer.index()].name
    }
}
