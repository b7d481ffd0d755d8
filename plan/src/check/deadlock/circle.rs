//! A circle of waiting, line by line.

use super::turned::Blocked;
use crate::check::links::Links;
use crate::check::local::{Reason, reason};
use crate::check::report::Report;
use crate::ir::CollectiveName;
use crate::program::{NONE, Op, OpKind, Program};
use crate::verdict::Line;

/// What a circle consists of.
pub(super) struct Circle<'r> {
    report: &'r Report<'r>,
    pub(super) story: Vec<Line>,
    /// The ranks that wait for another.
    pub(super) ranks: Vec<u32>,
    /// Whether it contains messages, and waits for signals.
    pub(super) messages: bool,
    pub(super) waits: bool,
    /// The first collective in it.
    pub(super) collective: Option<Collective>,
    pub(super) blocked: Vec<Blocked>,
}

/// A collective to which not all members have come.
#[derive(Clone, Copy)]
pub(super) struct Collective {
    /// A rank that has come.
    pub(super) rank: u32,
    pub(super) name: CollectiveName,
    /// The lines of the missing rank: its first statement in the circle, and its own call.
    pub(super) lines: Option<(u32, u32)>,
}

impl<'r> Circle<'r> {
    /// A circuit of events, against whose edges the ranks wait.
    pub(super) fn new(links: &Links, circuit: &[u32], report: &'r Report<'r>) -> Self {
        let program = report.program;
        let mut circle = Self {
            report,
            story: Vec::new(),
            ranks: Vec::new(),
            messages: false,
            waits: false,
            collective: None,
            blocked: Vec::new(),
        };
        let units = 2 * program.units.len() as u32;
        let nodes = from_a_rank_that_waits(program, circuit);
        for (index, &node) in nodes.iter().enumerate() {
            let after = |more: usize| nodes[(index + more) % nodes.len()];
            let (unit, next) = (node / 2, after(1));
            if node >= units || next / 2 == unit {
                continue;
            }
            if node % 2 == 0 {
                circle.is_blocked(next / 2, unit);
            } else if next < units {
                circle.waits_for(unit, next / 2);
            } else {
                let meeting = &links.collectives[(next - units) as usize];
                let mut members = meeting.members.iter().map(|&op| &program.ops[op as usize]);
                let own = members.find(|op| op.unit == unit);
                let missing = after(2) / 2;
                circle.comes_alone(unit, own, missing);
                // What the missing rank does first, before it comes.
                let first = after(3);
                let is_other = first < units && first / 2 != missing;
                let line = |unit: u32| program.at(unit as usize).line;
                let lines = is_other.then(|| (line(first / 2), line(missing)));
                let (rank, name) = (program.units[unit as usize].rank, meeting.kind.name());
                let known = circle.collective.get_or_insert(Collective { rank, name, lines: None });
                known.lines = known.lines.or(lines);
            }
        }
        circle
    }

    /// A rank that has come to a collective, and a member that has not.
    fn comes_alone(&mut self, unit: u32, op: Option<&Op>, missing: u32) {
        let other = self.report.program.units[missing as usize].rank;
        let does = op.map_or_else(String::new, |op| self.report.does(op));
        self.tell(unit, Some(other), format!("{does}, which needs rank {other}"));
    }

    /// A rank that waits for another one's message or signal.
    fn waits_for(&mut self, unit: u32, other: u32) {
        let program = self.report.program;
        let ops = program.ops_of(&program.units[unit as usize]);
        self.waits |= ops.iter().any(|op| op.kind == OpKind::Wait);
        self.messages |= ops.iter().any(|op| matches!(op.kind, OpKind::Send | OpKind::Receive));
        let text = waits(unit, other, self.report);
        self.tell(unit, Some(program.units[other as usize].rank), text);
    }

    /// A unit that comes after an earlier one of its rank.
    fn is_blocked(&mut self, earlier: u32, unit: u32) {
        self.blocked.push((earlier, unit));
        let why = why(earlier, unit, self.report);
        let line = self.report.program.at(earlier as usize).line;
        let text = format!("{} only after line {line} ({why})", self.report.unit_does(unit));
        self.tell(unit, None, text);
    }

    fn tell(&mut self, unit: u32, other: Option<u32>, text: String) {
        if other.is_some() {
            self.ranks.push(self.report.program.units[unit as usize].rank);
        }
        let other = other.map(|other| other as usize);
        self.story.push(Line { other, ..self.report.unit_line(unit, text) });
    }
}

/// The circuit against its edges, from each event to the one it waits for, beginning where a rank
/// waits for another.
fn from_a_rank_that_waits(program: &Program, circuit: &[u32]) -> Vec<u32> {
    let units = 2 * program.units.len() as u32;
    let mut nodes: Vec<u32> = circuit.iter().rev().copied().collect();
    let rank = |node: u32| program.units[(node / 2) as usize].rank;
    let crosses = |from: u32, to: u32| to >= units || rank(from) != rank(to);
    let is_first = |&at: &usize| {
        let (node, next) = (nodes[at], nodes[(at + 1) % nodes.len()]);
        node < units && node % 2 == 1 && crosses(node, next)
    };
    if let Some(first) = (0..nodes.len()).find(is_first) {
        nodes.rotate_left(first);
    }
    nodes
}

/// Why a unit comes after an earlier one of its rank.
fn why(earlier: u32, unit: u32, report: &Report<'_>) -> String {
    let program = report.program;
    if program.units[unit as usize].continues && earlier + 1 == unit {
        return "a group is launched communicator by communicator, in the plan's order".to_owned();
    }
    match reason(program, earlier, unit) {
        Some(Reason::Stream(_)) if program.streams == 1 => "the plan has one stream".to_owned(),
        Some(Reason::Communicator(among @ 1..)) => {
            let name = report.communicator_name(among);
            format!("operations of one communicator, {name}, run in order")
        }
        Some(why) => report.why(why),
        None => "it is issued later".to_owned(),
    }
}

/// What a unit waits for at another rank.
fn waits(unit: u32, other: u32, report: &Report<'_>) -> String {
    let program = report.program;
    let (of, theirs) = (&program.units[unit as usize], &program.units[other as usize]);
    let towards = program
        .ops_of(of)
        .iter()
        .find(|op| op.peer == theirs.rank && op.peer != NONE && op.kind != OpKind::Put);
    let does = towards.map_or_else(|| report.unit_does(unit), |op| report.does(op));
    let line = program.at(other as usize).line;
    match towards.map(|op| op.kind) {
        Some(OpKind::Send) => {
            format!("{does} and waits until rank {} receives (line {line})", theirs.rank)
        }
        Some(OpKind::Receive) => {
            format!("{does} and waits until rank {} sends (line {line})", theirs.rank)
        }
        Some(OpKind::Wait) => format!("{does}, which rank {} raises in line {line}", theirs.rank),
        _ => format!("{does} and waits for rank {} (line {line})", theirs.rank),
    }
}
