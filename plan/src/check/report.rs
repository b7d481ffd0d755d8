//! Problems as they are found, one for each rule and statement.

use std::collections::HashSet;

use super::instance::Instance;
use crate::ir::{BufferId, Expr, Location, Peer, Plan, Step, StepKind};
use crate::program::{Env, NONE, Op, OpKind, Program, Span};
use crate::verdict::{Check, Line, Problem, ProblemKind, Sizes};

/// How many problems of one rule are told.
const MOST: usize = 8;

pub(crate) struct Report<'a> {
    plan: &'a Plan,
    pub(crate) program: &'a Program,
    sizes: &'a Sizes,
    problems: Vec<Problem>,
    told: HashSet<(Check, Location)>,
    /// Whether memory is named without its ranges.
    pub(crate) without_ranges: bool,
}

impl<'a> Report<'a> {
    pub(crate) fn new(instance: &Instance<'a>) -> Self {
        let &Instance { plan, program, sizes } = instance;
        Self {
            plan,
            program,
            sizes,
            problems: Vec::new(),
            told: HashSet::new(),
            without_ranges: false,
        }
    }

    pub(crate) fn tell(
        &mut self,
        check: Check,
        at: Location,
        title: impl Into<String>,
        story: Vec<Line>,
        help: &[&str],
    ) {
        if self.is_full(check) || !self.told.insert((check, at)) {
            return;
        }
        self.problems.push(Problem {
            kind: ProblemKind::Broken(check),
            title: title.into(),
            at,
            sizes: Some(self.sizes.clone()),
            story,
            help: help.iter().map(|&line| line.to_owned()).collect(),
        });
    }

    /// Whether a clash of some use of memory was told already; then the put at `at` is told with it.
    pub(crate) fn same_use(&mut self, check: Check, of: Location, at: Location) -> bool {
        let same = |problem: &&mut Problem| {
            problem.check() == Some(check)
                && problem.story.first().is_some_and(|line| line.at == of)
        };
        let Some(known) = self.problems.iter_mut().find(same) else { return false };
        if known.at != at && self.told.insert((check, at)) {
            let text = "and the same holds for this put".to_owned();
            known.story.push(Line { rank: None, other: None, at, text });
        }
        true
    }

    /// Whether a problem with an operation's statement was told, or enough of them: then no words are made.
    pub(crate) fn knows(&self, check: Check, op: &Op) -> bool {
        self.is_full(check) || self.told.contains(&(check, self.program.place(op.statement)))
    }

    fn is_full(&self, check: Check) -> bool {
        let of_rule = self.problems.iter().filter(|problem| problem.check() == Some(check));
        of_rule.count() >= MOST
    }

    /// A check that cannot be decided for all the sizes that the plan claims.
    pub(crate) fn undecided(&mut self, check: Check) {
        let what = match check {
            Check::Deadlock => "whether some number of ranks waits in a circle",
            Check::CapturedCredit => "whether some number of ranks, captured, waits in a circle",
            Check::CommunicatorOrder => "whether two communicators have one order for every size",
            _ => "whether nobody writes what another uses, for every size",
        };
        let kind = ProblemKind::Undecided(check);
        if self.problems.iter().any(|problem| problem.kind == kind) {
            return;
        }
        self.problems.push(Problem {
            kind,
            title: format!("{what} cannot be decided"),
            at: self.plan.steps.first().map(|step| step.at).unwrap_or_default(),
            sizes: None,
            story: Vec::new(),
            help: vec![
                "declare the numbers of ranks as a list or a range: then each is checked"
                    .to_owned(),
            ],
        });
    }

    pub(crate) fn too_large(&mut self, what: &str) {
        self.problems.push(Problem {
            kind: ProblemKind::TooLarge,
            title: format!("{what} is more than what is checked at this size"),
            at: Location::default(),
            sizes: Some(self.sizes.clone()),
            story: Vec::new(),
            help: vec!["check the plan for smaller sizes".to_owned()],
        });
    }

    /// Whether something has no other half, so that nothing can be said about waiting.
    pub(crate) fn is_unmatched(&self) -> bool {
        self.problems.iter().any(|problem| {
            matches!(
                problem.check(),
                Some(
                    Check::Matching
                        | Check::Agreement
                        | Check::SelfMessages
                        | Check::CollectiveOrder
                        | Check::Groups
                        | Check::Signals
                )
            )
        })
    }

    pub(crate) fn hangs(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| matches!(problem.check(), Some(Check::Deadlock | Check::CapturedCredit)))
    }

    /// What was found, by place.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| (problem.at, problem.check()));
        self.problems
    }

    /// A line about an operation.
    pub(crate) fn line(&self, rank: u32, op: &Op, text: impl Into<String>) -> Line {
        Line {
            rank: Some(rank as usize),
            other: (op.peer != NONE).then_some(op.peer as usize),
            at: self.program.place(op.statement),
            text: text.into(),
        }
    }

    /// A line about a unit.
    pub(crate) fn unit_line(&self, unit: u32, text: impl Into<String>) -> Line {
        let of = &self.program.units[unit as usize];
        Line {
            rank: Some(of.rank as usize),
            other: None,
            at: self.program.place(of.statement),
            text: text.into(),
        }
    }

    /// What elements are called: `u[0, 4)`.
    pub(crate) fn name(&self, span: Span) -> String {
        if span.object == NONE {
            return "nothing".to_owned();
        }
        let object = &self.program.objects.all[span.object as usize];
        let buffer = &self.plan.buffers[object.buffer.index()];
        let mut name = format!("`{}", buffer.name);
        if buffer.array.is_some() {
            name += &format!("[{}]", object.index);
        }
        if object.twin < span.object {
            name += ".next";
        }
        name += "`";
        if !self.without_ranges && (span.start != 0 || span.end != object.len) {
            name += &format!(" [{}, {})", span.start, span.end);
        }
        name
    }

    /// What an object's buffer is called, without anything else.
    pub(crate) fn buffer_name(&self, object: u32) -> &str {
        let object = &self.program.objects.all[object as usize];
        &self.plan.buffers[object.buffer.index()].name
    }

    /// That a buffer falls into equal parts, as what is promised of its length.
    pub(crate) fn even(&self, object: u32) -> Option<String> {
        let object = &self.program.objects.all[object as usize];
        let len = &self.plan.buffers[object.buffer.index()].len;
        let (Expr::Param(_), [axis]) = (len, self.plan.axes.as_slice()) else { return None };
        let (len, n) = (self.plan.show(len), &axis.name);
        Some(format!(
            "say `where {len} % {n} == 0`: then no part is empty, or shorter than another"
        ))
    }

    /// The half that a message lacks, where it is written along an open chain: its place, its peer, and its
    /// peer around the ring.
    pub(crate) fn open_end(&self, op: &Op) -> Option<(Location, String, String)> {
        if op.shift == NONE {
            return None;
        }
        let back = &self.program.shifts[self.program.shifts[op.shift as usize].back as usize];
        let [(axis, by, _)] = back.hops.as_slice() else { return None };
        for step in Step::all(&self.plan.steps) {
            let peer = match &step.kind {
                StepKind::Receive(this) if op.kind == OpKind::Send => &this.peer,
                StepKind::Send(this) if op.kind == OpKind::Receive => &this.peer,
                _ => continue,
            };
            let Peer::Shift(hops) = peer else { continue };
            let [hop] = hops.as_slice() else { continue };
            let env = Env {
                extents: &self.sizes.extents,
                size: self.program.ranks() as i64,
                params: &self.sizes.params,
                counters: &vec![None; self.plan.counters.len()],
                rank: 0,
            };
            if hop.wrap || hop.axis.0 != *axis || env.eval(&hop.by) != Ok(*by) {
                continue;
            }
            let rank = match self.plan.axes.len() {
                1 => "rank".to_owned(),
                _ => format!("rank.{}", self.plan.axes[hop.axis.index()].name),
            };
            let sign = if *by < 0 { '-' } else { '+' };
            let written = format!("{rank} {sign} {}", by.unsigned_abs());
            let closed = format!("({written}) % {}", self.plan.axes[hop.axis.index()].name);
            return Some((step.at, written, closed));
        }
        None
    }

    /// How a buffer is declared whose copies swap.
    pub(crate) fn declaration(&self, buffer: BufferId) -> String {
        let buffer = &self.plan.buffers[buffer.index()];
        let role = buffer.role.word();
        let window = if buffer.window { " window" } else { "" };
        format!("`{role} swapped{window} {}`", buffer.name)
    }

    /// How a rank at a distance is written: `(rank + 1) % n`.
    pub(crate) fn peer(&self, shift: u32) -> String {
        let alone = self.plan.axes.len() == 1;
        let hops = self.program.shifts[shift as usize].hops.iter().map(|&(axis, by, wraps)| {
            let axis = &self.plan.axes[axis as usize].name;
            let rank = if alone { "rank".to_owned() } else { format!("rank.{axis}") };
            let step = match by {
                0 => rank,
                1.. => format!("{rank} + {by}"),
                _ => format!("{rank} - {}", by.unsigned_abs()),
            };
            if wraps && by != 0 { format!("({step}) % {axis}") } else { step }
        });
        match hops.collect::<Vec<_>>().as_slice() {
            [] => "rank".to_owned(),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }

    pub(crate) fn communicator(&self, op: &Op) -> &str {
        &self.plan.communicators[usize::from(op.communicator)].name
    }

    /// The axis along which a distance is, if it is along one.
    pub(crate) fn axis_name(&self, shift: u32) -> &str {
        match self.program.shifts[shift as usize].hops.first() {
            Some((axis, ..)) => &self.plan.axes[*axis as usize].name,
            None => "n",
        }
    }

    pub(crate) fn communicator_name(&self, communicator: u16) -> &str {
        &self.plan.communicators[usize::from(communicator)].name
    }

    /// What an object is called.
    pub(crate) fn object_name(&self, object: u32) -> String {
        let end = self.program.objects.all[object as usize].len;
        self.name(Span { object, start: 0, end })
    }

    pub(crate) fn signal(&self, signal: u32) -> &str {
        &self.plan.signals[signal as usize].name
    }

    pub(crate) fn stream(&self, stream: u16) -> &str {
        &self.plan.streams[usize::from(stream)].name
    }

    /// What an operation of a run of that number does.
    pub(crate) fn does_in(&self, op: &Op, run: u32) -> String {
        let mut op = op.clone();
        for span in [&mut op.source, &mut op.target] {
            span.object = self.program.objects.in_run(span.object, run as usize);
        }
        self.does(&op)
    }

    /// What an operation does, as a verb: "sends `a` to rank 1".
    pub(crate) fn does(&self, op: &Op) -> String {
        match op.kind {
            OpKind::Read => format!("reads {}", self.name(op.source)),
            OpKind::Write => format!("writes {}", self.name(op.target)),
            OpKind::Send => format!("sends {} to rank {}", self.name(op.source), op.peer),
            OpKind::Receive => format!("receives {} from rank {}", self.name(op.target), op.peer),
            OpKind::Put => {
                let mut text = format!(
                    "puts {} into {} of rank {}",
                    self.name(op.source),
                    self.name(op.target),
                    op.peer
                );
                if op.signal != NONE {
                    text += &format!(", with signal `{}`", self.signal(op.signal));
                }
                text
            }
            OpKind::Signal => {
                format!("raises signal `{}` at rank {}", self.signal(op.signal), op.peer)
            }
            OpKind::Wait if op.times == 1 => {
                format!("waits for signal `{}` of rank {}", self.signal(op.signal), op.peer)
            }
            OpKind::Wait => format!(
                "waits for {} signals `{}` of rank {}",
                op.times,
                self.signal(op.signal),
                op.peer
            ),
            OpKind::Collective(kind) => {
                format!("runs {} on `{}`", kind.name(), self.communicator(op))
            }
        }
    }

    /// What a unit does.
    pub(crate) fn unit_does(&self, unit: u32) -> String {
        let of = &self.program.units[unit as usize];
        let ops = self.program.ops_of(of);
        if of.is_compute {
            return match self.compute_name(of.statement) {
                Some(name) => format!("runs `{name}`"),
                None => "computes".to_owned(),
            };
        }
        match ops {
            [] => "does nothing".to_owned(),
            [op] => self.does(op),
            [first, second] => {
                format!("in one group {} and {}", self.does(first), self.does(second))
            }
            [first, ..] => {
                format!("in one group of {} {} and so on", ops.len(), self.does(first))
            }
        }
    }

    fn compute_name(&self, statement: u32) -> Option<&str> {
        match &Step::nth(&self.plan.steps, statement)?.kind {
            StepKind::Compute(this) => Some(&this.name),
            _ => None,
        }
    }
}
