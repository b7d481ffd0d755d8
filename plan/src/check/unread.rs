//! A15, the other way round: what a message brings is read, by the plan or by the caller.
//!
//! A message that nothing reads is a slip, most often one of order: it is received after its
//! reader. But the last turn of a ring may bring what nobody needs. So a statement is refused only
//! if none of its messages is read: on no rank, in no turn, at no size that was checked. For one
//! size alone nothing is said.

use std::collections::{BTreeMap, HashMap};

use super::instance::Instance;
use super::ranges::Ranges;
use super::report::Report;
use crate::ir::{Plan, Role, Step, StepKind};
use crate::program::{Op, OpKind, Program, Shift, Span, Stride};
use crate::verdict::{Check, Problem};

/// Uses of one buffer that are remembered; of a message that comes after more, nothing is said.
const MOST: usize = 64;

/// The statements none of whose messages was read so far; with the story of the first one, where
/// there was one.
pub(super) struct Unread(BTreeMap<u32, Option<Problem>>);

/// A message that has come and was not read yet.
struct Fresh<'p> {
    op: &'p Op,
    /// The step that has read what was there before, where that was the caller's, and nothing else
    /// did.
    late: Option<u32>,
}

/// What a rank has done with one of its buffers so far.
#[derive(Default)]
struct Used<'p> {
    fresh: Vec<Fresh<'p>>,
    /// What was read by a step, and which unit that was; what was written or passed on.
    uses: Vec<(Span, Option<u32>)>,
}

/// What other ranks read of windows, by owner and object.
struct Gets(HashMap<(u32, u32), Ranges>);

impl Gets {
    fn new(program: &Program) -> Self {
        let mut gets: HashMap<_, Ranges> = HashMap::new();
        for op in program.ops.iter().filter(|op| op.kind == OpKind::Get) {
            let Span { object, start, end } = op.source;
            gets.entry((op.peer, object)).or_default().add(start, end);
        }
        Self(gets)
    }

    /// Whether some of these elements are read.
    fn contains(&self, &(rank, span): &(u32, Span)) -> bool {
        let of = self.0.get(&(rank, span.object));
        of.is_some_and(|ranges| ranges.overlaps(span.start, span.end))
    }
}

impl Unread {
    pub(super) fn new(plan: &Plan) -> Self {
        let receives =
            |step: &Step| matches!(step.kind, StepKind::Receive(_) | StepKind::Transfer(_));
        let numbered = (0..).zip(Step::all(&plan.steps)).filter(|(_, step)| receives(step));
        Self(numbered.map(|(number, _)| (number, None)).collect())
    }

    /// Follows the messages of an instance in which nothing is wrong.
    pub(super) fn look(&mut self, instance: &Instance<'_>) {
        let gets = Gets::new(instance.program);
        for rank in 0..instance.program.ranks() {
            if self.0.is_empty() {
                return;
            }
            self.rank(instance, rank, &gets);
        }
    }

    /// What is wrong, when all sizes were looked at.
    pub(super) fn problems(self) -> Vec<Problem> {
        self.0.into_values().flatten().collect()
    }

    fn rank(&mut self, instance: &Instance<'_>, rank: usize, gets: &Gets) {
        let program = instance.program;
        let is_given = |span: Span| program.objects.all[span.object as usize].role == Role::InOut;
        let mut memory: HashMap<u32, Used<'_>> = HashMap::new();
        for at in program.of_rank(rank) {
            let unit = &program.units[at];
            let ops = || program.ops_of(unit).iter();
            for op in ops().filter(|op| !op.read().is_empty()) {
                let used = memory.entry(op.source.object).or_default();
                self.read(used, |fresh| fresh.op.target.overlaps(op.source));
                if is_given(op.source) {
                    let is_step = op.kind == OpKind::Read;
                    used.note((op.source, is_step.then_some(at as u32)));
                }
            }
            for op in ops().filter(|op| op.kind != OpKind::Put && !op.target.is_empty()) {
                let used = memory.entry(op.target.object).or_default();
                let is_over = |old: Span| op.target.start <= old.start && old.end <= op.target.end;
                for lost in used.fresh.extract_if(.., |fresh| is_over(fresh.op.target)) {
                    self.lost(instance, &lost, Some(op));
                }
                if op.kind == OpKind::Receive && self.0.contains_key(&op.statement) {
                    // A peer's read counts, whenever it comes: its order is checked elsewhere.
                    match gets.contains(&(rank as u32, op.target)) {
                        true => drop(self.0.remove(&op.statement)),
                        false => self.receive(used, op),
                    }
                }
                if is_given(op.target) {
                    used.note((op.target, None));
                }
            }
        }
        for used in memory.into_values() {
            self.end(instance, used);
        }
    }

    /// A message has come.
    fn receive<'p>(&mut self, used: &mut Used<'p>, op: &'p Op) {
        if used.fresh.len() == MOST || used.uses.len() == MOST {
            self.0.remove(&op.statement);
            return;
        }
        let mut before = used.uses.iter().filter(|(span, _)| span.overlaps(op.target));
        let first = before.next().and_then(|(_, by)| *by);
        let late = first.filter(|_| before.all(|(_, by)| by.is_some()));
        used.fresh.push(Fresh { op, late });
    }

    /// The messages of these statements are read.
    fn read(&mut self, used: &mut Used<'_>, is_read: impl Fn(&Fresh<'_>) -> bool) {
        for fresh in &used.fresh {
            if is_read(fresh) {
                self.0.remove(&fresh.op.statement);
            }
        }
        used.fresh.retain(|fresh| self.0.contains_key(&fresh.op.statement));
    }

    /// What the caller reads when the run has ended, and what nobody reads.
    fn end(&mut self, instance: &Instance<'_>, mut used: Used<'_>) {
        let objects = &instance.program.objects.all;
        self.read(&mut used, |fresh| {
            let object = &objects[fresh.op.target.object as usize];
            match object.role {
                // The next run reads the other copy.
                _ if object.other_copy != fresh.op.target.object => true,
                Role::In | Role::Out => true,
                Role::InOut => fresh.late.is_none(),
                Role::Local => false,
            }
        });
        for fresh in used.fresh {
            self.lost(instance, &fresh, None);
        }
    }

    /// A message was not read, perhaps since something was written over it. It counts if none of
    /// its statement is.
    fn lost(&mut self, instance: &Instance<'_>, fresh: &Fresh<'_>, over: Option<&Op>) {
        if let Some(first @ None) = self.0.get_mut(&fresh.op.statement) {
            *first = Some(problem(instance, fresh, over));
        }
    }
}

impl Used<'_> {
    /// Remembers a use, once.
    fn note(&mut self, one: (Span, Option<u32>)) {
        let is_known =
            |known: &(Span, Option<u32>)| known.0 == one.0 && known.1.is_some() == one.1.is_some();
        if self.uses.len() < MOST && !self.uses.iter().any(is_known) {
            self.uses.push(one);
        }
    }
}

fn problem(instance: &Instance<'_>, fresh: &Fresh<'_>, over: Option<&Op>) -> Problem {
    let mut report = Report::new(instance);
    let &Fresh { op, late } = fresh;
    let name = report.name(op.target);
    let object = &instance.program.objects.all[op.target.object as usize];
    let buffer = &instance.plan.buffers[object.buffer.index()].name;
    let mut story = vec![report.says(op)];
    let help = match (over, late) {
        (Some(over), _) => {
            let line = report.line(over, format!("{}, over it", report.does(over)));
            let before = format!("read it before line {} writes there", line.at.line);
            story.push(line);
            [before, "or use two buffers, or remove the message".to_owned()]
        }
        (None, Some(unit)) => {
            let does = report.unit_does(unit);
            let line = report.unit_line(unit, format!("{does}, which reads {name} before"));
            let before = earlier(op, line.at.line, &report);
            story.insert(0, line);
            let next = format!(
                "or declare it as `inout swapped {buffer}`, and receive into `{buffer}.next`, if the next run is to \
                 read it"
            );
            [before, next]
        }
        (None, None) => [
            "read it afterwards, or remove the message".to_owned(),
            format!("or declare `{buffer}` as `out` or `inout`, if the caller is to read it"),
        ],
    };
    let at = instance.program.place(op.statement);
    let title = format!("nothing reads the message that comes into {name} here");
    report.tell(Check::Initialised, at, title, story, &[&help[0], &help[1]]);
    report.finish().remove(0)
}

/// How a message comes before the step that reads where it goes.
pub(super) fn earlier(op: &Op, line: u32, report: &Report<'_>) -> String {
    let step = Step::nth(&report.plan().steps, op.statement);
    let is_open = |shift: &Shift| matches!(shift.hops.as_slice(), [Stride { wraps: false, .. }]);
    let shift = report.program.shift(op).filter(|shift| is_open(shift));
    match (step.map(|step| &step.kind), shift) {
        (Some(StepKind::Transfer(this)), Some(_)) => {
            let plan = report.plan();
            let (from, to) = (plan.show(&this.from), plan.show(&this.to));
            let (peer, back) = (plan.show(&this.peer), report.peer(op.shift));
            format!(
                "write `recv {to} from {back};` before line {line}, and `send {from} to {peer};` here"
            )
        }
        _ => format!("receive it before line {line}"),
    }
}
