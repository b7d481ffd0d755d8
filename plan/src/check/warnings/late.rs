//! Steps that read what the caller left in memory, where a message comes into it later.
//!
//! Where the next run is to read the message, this is right; most often the message was to come
//! first.

use std::collections::{BTreeMap, HashMap};

use super::super::instance::Instance;
use super::super::ranges::Ranges;
use super::super::report::Report;
use super::super::unread::earlier;
use crate::ir::{Location, Role, Step};
use crate::program::{Op, OpKind, Program, Span};
use crate::verdict::{Problem, ProblemKind};

/// The messages that come too late, by statement.
#[derive(Default)]
pub(super) struct Late(BTreeMap<Location, Problem>);

/// What a rank did with an object so far.
#[derive(Default)]
struct Used<'p> {
    /// Elements that are no longer the caller's.
    written: Ranges,
    /// Reads by steps of what the caller left.
    reads: Vec<(u32, Span, &'p Op)>,
}

/// How many reads of an object are remembered.
const MOST: usize = 16;

impl Late {
    pub(super) fn look(&mut self, instance: &Instance<'_>) {
        let program = instance.program;
        let works = Step::local_works(&instance.plan.steps);
        let named = works.iter().map(|work| work.as_ref().is_some_and(|work| work.name.is_some()));
        let named: Vec<bool> = named.collect();
        let is_given = |span: Span| {
            let object = program.objects.all.get(span.object as usize);
            object.is_some_and(|one| one.role == Role::InOut && one.other_copy == span.object)
        };
        if !program.objects.all.iter().any(|one| one.role == Role::InOut) {
            return;
        }
        for rank in 0..program.ranks() {
            let mut memory: HashMap<u32, Used<'_>> = HashMap::new();
            for at in program.of_rank(rank) {
                let unit = &program.units[at];
                let ops = program.ops_of(unit);
                let is_named = named[unit.statement as usize];
                for op in ops.iter().filter(|op| is_named && is_given(op.source)) {
                    let used = memory.entry(op.source.object).or_default();
                    let Span { start, end, .. } = op.source;
                    let updates = ops.iter().any(|other| other.target.overlaps(op.source));
                    let is_new = !updates && !used.written.overlaps(start, end);
                    if is_new && used.reads.len() < MOST {
                        used.reads.push((at as u32, op.source, op));
                    }
                }
                for op in ops.iter().filter(|op| op.kind != OpKind::Put && is_given(op.target)) {
                    let used = memory.entry(op.target.object).or_default();
                    if op.kind == OpKind::Receive {
                        self.receive(instance, used, op);
                    }
                    used.written.add(op.target.start, op.target.end);
                }
            }
        }
    }

    fn receive(&mut self, instance: &Instance<'_>, used: &Used<'_>, op: &Op) {
        let program: &Program = instance.program;
        let Span { start, end, .. } = op.target;
        let at = program.place(op.statement);
        if used.written.overlaps(start, end) || self.0.contains_key(&at) {
            return;
        }
        let mut reads = used.reads.iter().filter(|(_, span, _)| span.overlaps(op.target));
        let Some(&(unit, span, _)) = reads.next() else { return };
        let report = Report::new(instance);
        let name = report.name(span);
        let does = report.unit_does(unit);
        let line =
            report.unit_line(unit, format!("{does}, which reads what the caller left in {name}"));
        let title = format!("this message comes into {name} after a step has read there");
        let help = earlier(op, line.at.line, &report);
        let problem = Problem::new(ProblemKind::Doubtful, title, at, &help);
        let buffer =
            &instance.plan.buffers[program.objects.all[span.object as usize].buffer.index()];
        let mut help = problem.help.clone();
        help.push(format!(
            "or, if the next run is to read it, declare `inout swapped {0}`, and receive into `{0}.next`",
            buffer.name
        ));
        let story = vec![line, report.says(op)];
        let sizes = Some(instance.sizes.clone());
        self.0.insert(at, Problem { story, sizes, help, ..problem });
    }

    pub(super) fn finish(self) -> impl Iterator<Item = Problem> {
        self.0.into_values()
    }
}
