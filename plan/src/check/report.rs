//! Problems as they are found, one for each rule and statement.

use std::collections::HashSet;

use super::instance::Instance;
use super::local::Reason;
use crate::ir::{BufferId, Expr, Location, Plan};
use crate::program::{Env, NONE, Op, Program, Span, declared, too_large};
use crate::verdict::{Check, Line, Problem, ProblemKind, Sizes};

/// How many problems of one rule are told.
const MOST: usize = 8;

/// What is in the middle of a signal to who puts, and the wait for it: each put needs such.
pub(crate) const EXCHANGE: &str = ";` `wait ";

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
        let &Instance { plan, program, sizes, .. } = instance;
        Self {
            plan,
            program,
            sizes,
            problems: Vec::new(),
            told: HashSet::new(),
            without_ranges: false,
        }
    }

    pub(crate) fn plan(&self) -> &'a Plan {
        self.plan
    }

    pub(crate) fn sizes(&self) -> &'a Sizes {
        self.sizes
    }

    /// What names outside of all loops stand for on a rank.
    pub(crate) fn env(&self, rank: usize) -> Env<'a> {
        Env::new(&self.sizes.extents, &self.sizes.params).on(rank)
    }

    pub(crate) fn tell(
        &mut self,
        check: Check,
        at: Location,
        title: impl Into<String>,
        story: Vec<Line>,
        help: impl IntoIterator<Item: AsRef<str>>,
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
            help: help.into_iter().map(|line| line.as_ref().to_owned()).collect(),
        });
    }

    /// Whether the same pair was reported the other way round: a problem at that place whose story
    /// begins at the other place.
    pub(crate) fn tells_both(&self, check: Check, at: Location, first: Location) -> bool {
        self.problems.iter().any(|problem| {
            problem.check() == Some(check)
                && problem.at == at
                && problem.story.first().is_some_and(|line| line.at == first)
        })
    }

    /// Whether a clash with this use of memory was reported already. If so, adds the put at `at` to
    /// that problem, and `more` to its help.
    pub(crate) fn same_use(
        &mut self,
        check: Check,
        (of, at): (Location, Location),
        more: impl FnOnce() -> Option<String>,
    ) -> bool {
        let same = |problem: &&mut Problem| {
            problem.check() == Some(check)
                && problem.story.first().is_some_and(|line| line.at == of)
        };
        let Some(known) = self.problems.iter_mut().find(same) else { return false };
        if known.at != at && self.told.insert((check, at)) {
            let text = "and the same is true of this put".to_owned();
            known.story.push(Line { rank: None, other: None, at, text });
            let wants = known.help.iter_mut().find(|help| help.contains(EXCHANGE));
            if let Some((help, more)) = wants.zip(more()) {
                *help += &format!(", {more}");
            }
        }
        true
    }

    /// That the problem at a place was told with another one.
    pub(crate) fn is_told(&mut self, check: Check, at: Location) {
        self.told.insert((check, at));
    }

    /// Whether this operation's statement was reported for this rule, or enough others were: then
    /// there is nothing to word.
    pub(crate) fn knows(&self, check: Check, op: &Op) -> bool {
        self.is_full(check) || self.told.contains(&(check, self.program.place(op.statement)))
    }

    fn is_full(&self, check: Check) -> bool {
        let of_rule = self.problems.iter().filter(|problem| problem.check() == Some(check));
        of_rule.count() >= MOST
    }

    pub(crate) fn too_large(&mut self, what: &str) {
        let title = format!("{what} is more than what is checked at this size");
        self.problems.push(too_large(&title, declared(self.plan), self.sizes));
    }

    /// Warns that what the plan computes was not followed, unless the plan is refused anyway.
    pub(crate) fn not_followed(&mut self) {
        if self.problems.is_empty() {
            let at = self.plan.computes.first().map(|claim| claim.at).unwrap_or_default();
            let title = "what the plan says it computes was not checked: it has too many parts";
            let kind = ProblemKind::NotFollowed;
            self.problems.push(Problem { kind, ..too_large(title, at, self.sizes) });
        }
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
    pub(crate) fn line(&self, op: &Op, text: impl Into<String>) -> Line {
        Line {
            rank: Some(self.program.rank(op) as usize),
            other: (op.peer != NONE).then_some(op.peer as usize),
            at: self.program.place(op.statement),
            text: text.into(),
        }
    }

    /// A line that says what an operation does.
    pub(crate) fn says(&self, op: &Op) -> Line {
        self.line(op, self.does(op))
    }

    /// A line about a unit.
    pub(crate) fn unit_line(&self, unit: u32, text: impl Into<String>) -> Line {
        let of = &self.program.units[unit as usize];
        Line::of(of.rank as usize, self.program.place(of.statement), text)
    }

    /// What elements are called: `u[0, 4)`.
    pub(crate) fn name(&self, span: Span) -> String {
        if span.object == NONE {
            return "nothing".to_owned();
        }
        let object = &self.program.objects.all[span.object as usize];
        let mut name = self.object_name(span.object);
        if !self.without_ranges && (span.start != 0 || Some(span.end) != object.len.same()) {
            name += &format!(" [{}, {})", span.start, span.end);
        }
        name
    }

    /// That a buffer falls into equal parts, as what is promised of its length.
    pub(crate) fn even(&self, object: u32) -> Option<String> {
        let object = &self.program.objects.all[object as usize];
        let len = &self.plan.buffers[object.buffer.index()].len;
        let (Expr::Param(id), [axis]) = (len, self.plan.axes.as_slice()) else { return None };
        if self.sizes.params[id.index()][0] % self.sizes.extents[0] == 0 {
            return None;
        }
        let (len, n) = (self.plan.show(len), &axis.name);
        Some(format!(
            "write `where {len} % {n} == 0`: then no part is empty, or shorter than another"
        ))
    }

    /// How a buffer is declared whose copies swap.
    pub(crate) fn declaration(&self, buffer: BufferId) -> String {
        let buffer = &self.plan.buffers[buffer.index()];
        let role = buffer.role.word();
        let window = if buffer.window { " window" } else { "" };
        format!("`{role} swapped{window} {}`", buffer.name)
    }

    /// A suffix for a statement that a loop over a list repeats.
    pub(crate) fn of_list(&self, statement: u32) -> &'static str {
        let at = self.program.place(statement);
        let alike = self.program.places.iter().filter(|place| **place == at);
        if at != Location::default() && alike.take(2).count() > 1 {
            ", for this value of the list"
        } else {
            ""
        }
    }

    /// How a rank at a distance is written: `(rank + 1) % n`.
    pub(crate) fn peer(&self, shift: u32) -> String {
        self.step(shift, true)
    }

    /// The same along open chains: `rank + 1`.
    pub(crate) fn open_peer(&self, shift: u32) -> String {
        self.step(shift, false)
    }

    /// The way back from an operation's peer, as [`peer`](Self::peer).
    pub(crate) fn back(&self, op: &Op) -> Option<String> {
        self.program.shift(op).map(|shift| self.peer(shift.back))
    }

    fn step(&self, shift: u32, wrapped: bool) -> String {
        let hops = self.program.shifts[shift as usize].hops.iter().map(|hop| {
            let rank = self.coordinate(hop.axis);
            let step = match (&hop.written, hop.by) {
                (Some(written), _) => written.clone(),
                (None, 0) => rank,
                (None, by @ 1..) => format!("{rank} + {by}"),
                (None, by) => format!("{rank} - {}", by.unsigned_abs()),
            };
            if wrapped && hop.wraps && (hop.by != 0 || hop.written.is_some()) {
                format!("({step}) % {}", self.plan.axes[hop.axis as usize].name)
            } else {
                step
            }
        });
        match hops.collect::<Vec<_>>().as_slice() {
            [] => "rank".to_owned(),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }

    /// How a rank's place along an axis is written: `rank`, or `rank.rows` on a mesh.
    pub(crate) fn coordinate(&self, axis: u32) -> String {
        match self.plan.axes.as_slice() {
            [_] => "rank".to_owned(),
            axes => format!("rank.{}", axes[axis as usize].name),
        }
    }

    /// Who belongs to an operation's communicator: "the ranks", "the members of `node`".
    pub(crate) fn members(&self, op: &Op) -> String {
        match op.communicator {
            0 => "ranks".to_owned(),
            other => format!("members of {}", self.communicator_name(other)),
        }
    }

    /// The axis along which a distance is, if it is along one.
    pub(crate) fn axis_name(&self, shift: u32) -> &str {
        match self.program.shifts[shift as usize].hops.first() {
            Some(hop) => &self.plan.axes[hop.axis as usize].name,
            None => "n",
        }
    }

    /// What a communicator is called: the one of all ranks needs no name in a plan.
    pub(crate) fn communicator_name(&self, communicator: u16) -> String {
        match communicator {
            0 => "all ranks".to_owned(),
            other => format!("`{}`", self.plan.communicators[usize::from(other)].name),
        }
    }

    /// What an object is called.
    pub(crate) fn object_name(&self, object: u32) -> String {
        let this = &self.program.objects.all[object as usize];
        let buffer = &self.plan.buffers[this.buffer.index()];
        let index = buffer.array.as_ref().map(|_| format!("[{}]", this.index));
        let next = if this.other_copy < object { ".next" } else { "" };
        format!("`{}{}{next}`", buffer.name, index.unwrap_or_default())
    }

    pub(crate) fn signal(&self, signal: u32) -> &str {
        &self.plan.signals[signal as usize].name
    }

    /// A name for one more signal: this one, unless something is called so.
    pub(crate) fn free_signal(&self, name: &str) -> String {
        let plan = self.plan;
        let taken = |name: &str| {
            plan.signals
                .iter()
                .chain(&plan.streams)
                .chain(&plan.counters)
                .any(|one| one.name == name)
                || plan.buffers.iter().any(|one| one.name == name)
                || plan.params.iter().any(|one| one.name == name)
                || plan.axes.iter().any(|one| one.name == name)
        };
        let mut free = name.to_owned();
        let mut more = 2;
        while taken(&free) {
            free = format!("{name}{more}");
            more += 1;
        }
        free
    }

    pub(crate) fn stream(&self, stream: u16) -> &str {
        &self.plan.streams[usize::from(stream)].name
    }

    /// Names a stream to stand on; empty if the plan has one.
    pub(crate) fn on(&self, stream: u16) -> String {
        match self.program.streams {
            0 | 1 => String::new(),
            _ => format!(" on {}", self.stream(stream)),
        }
    }

    /// Why a unit is ordered after an earlier one.
    pub(crate) fn why(&self, reason: Reason) -> String {
        match reason {
            Reason::Stream(stream) => format!("on stream `{}`", self.stream(stream)),
            Reason::Communicator(0) => "what goes among all ranks runs in order".to_owned(),
            Reason::Communicator(among) => {
                format!("operations of {} run in order", self.communicator_name(among))
            }
            Reason::After(stream) => format!("it is `after` stream `{}`", self.stream(stream)),
            Reason::Memory(both) => format!("both use {}", self.name(both)),
            Reason::Signals => "it uses a window after a wait for signals".to_owned(),
        }
    }
}
