//! One run, followed piece by piece.

use std::collections::HashMap;
use std::ops::Range;

use super::pieces::{Contents, Pieces, together};
use super::values::{Values, made_by};
use super::watch::Watch;
use crate::check::deadlock;
use crate::check::equations::{Equations, part_of};
use crate::check::instance::Instance;
use crate::check::links::Links;
use crate::check::local::Local;
use crate::ir::{LocalWork, Reduction};
use crate::program::{Budget, Kind, NONE, Op, OpKind, Program, Span, Unit};

/// The memory of all ranks, by rank and object.
type Memory = HashMap<(u32, u32), Contents>;

/// A run that is being followed.
pub(super) struct Run<'a> {
    program: &'a Program,
    links: &'a Links,
    values: &'a mut Values,
    memory: Memory,
    /// What each operation read when its unit started.
    taken: Vec<Pieces>,
    equations: Equations<'a>,
    /// Of each receive, the send.
    from: HashMap<u32, u32>,
    /// Of each collective's operation, the meeting.
    meeting: HashMap<u32, usize>,
    /// The puts that have arrived when a unit ends.
    arriving: HashMap<u32, Vec<u32>>,
    watch: Watch,
    /// How many pieces there were at first, and were read and written since.
    pieces: usize,
}

/// Pieces that are read and written at most: what bounds the memory.
const MOST_PIECES: usize = 1 << 21;

impl<'a> Run<'a> {
    /// Follows all of it, in an order that everything keeps. `None` if that is too much.
    pub(super) fn new(
        instance: &Instance<'a>,
        links: &'a Links,
        watch: Watch,
        (values, budget): (&'a mut Values, &mut Budget),
    ) -> Option<Self> {
        let program = instance.program;
        let initial_pieces = program.ranks().saturating_mul(program.objects.all.len());
        if initial_pieces > MOST_PIECES || !budget.take(initial_pieces as u64) {
            return None;
        }
        let messages = links.messages.iter();
        let mut meeting = HashMap::new();
        for (at, one) in links.collectives.iter().enumerate() {
            meeting.extend(one.members.iter().map(|&op| (op, at)));
        }
        let mut arriving: HashMap<u32, Vec<u32>> = HashMap::new();
        for arrival in &links.signals.arrivals {
            let when = arrival.wait.filter(|(_, later)| !later).map(|(unit, _)| unit);
            let when = when.unwrap_or(program.ops[arrival.put as usize].unit);
            arriving.entry(when).or_default().push(arrival.put);
        }
        let mut run = Self {
            program,
            links,
            memory: initial(program, values),
            values,
            taken: vec![Pieces::default(); program.ops.len()],
            pieces: initial_pieces,
            equations: Equations::new(instance.plan),
            from: messages.map(|message| (message.receive, message.send)).collect(),
            meeting,
            arriving,
            watch,
        };
        let graph = deadlock::blocks(program, links, &Local::new(program, 1), false);
        let units = program.units.len() as u32;
        for node in graph.sorted().into_iter().filter(|node| *node < 2 * units) {
            let unit = &program.units[node as usize / 2];
            let before = run.pieces;
            if node % 2 == 0 {
                run.start(unit)
            } else {
                run.end(node / 2, unit)
            }
            let work = (run.pieces - before) as u64;
            if run.values.too_many() || run.pieces > MOST_PIECES || !budget.take(work) {
                return None;
            }
        }
        Some(run)
    }

    pub(super) fn read(&mut self, rank: u32, span: Span) -> Pieces {
        let Some(contents) = self.memory.get(&(rank, span.object)) else {
            return Pieces::default();
        };
        let pieces = contents.read(span.start..span.end, self.values);
        self.pieces += pieces.count();
        pieces
    }

    /// What the watched regions held, in the order in which they were asked for. `None` if that is
    /// too much.
    pub(super) fn watched(&mut self) -> Option<Vec<Pieces>> {
        let watch = std::mem::take(&mut self.watch);
        let most = MOST_PIECES.saturating_sub(self.pieces);
        watch.finish(most, |rank, object| self.memory.get(&(rank, object)), self.values)
    }

    /// A unit writes to a rank's memory; without one, something does of which the rank knows
    /// nothing.
    fn write(&mut self, rank: u32, unit: Option<u32>, span: Span, data: &Pieces) {
        if span.len() == data.len()
            && let Some(contents) = self.memory.get_mut(&(rank, span.object))
        {
            let by = (rank, unit.unwrap_or(NONE));
            self.pieces += self.watch.before_write(by, span, contents, self.values);
            self.pieces += data.count();
            contents.write(span.start, data, self.values);
        }
    }

    fn start(&mut self, unit: &Unit) {
        for (at, op) in (unit.first_op..).zip(self.program.ops_of(unit)) {
            let owner = if op.kind == OpKind::Get { op.peer } else { unit.rank };
            self.taken[at as usize] = self.read(owner, op.source);
        }
    }

    fn end(&mut self, number: u32, unit: &Unit) {
        let program = self.program;
        let ops = program.ops_of(unit);
        let step = self.equations.step(unit).cloned();
        for (at, op) in (unit.first_op..).zip(ops) {
            let data = match op.kind {
                OpKind::Write => self.computed((number, unit), step.as_ref(), ops, (at, op)),
                OpKind::Receive => match self.from.get(&at) {
                    Some(send) => self.taken[*send as usize].clone(),
                    None => continue,
                },
                OpKind::Collective(kind) => match self.meeting.get(&at) {
                    Some(&meeting) => self.collective(kind, meeting, at),
                    None => continue,
                },
                _ => continue,
            };
            self.write(unit.rank, Some(number), op.target, &data);
        }
        for put in self.arriving.remove(&number).into_iter().flatten() {
            let op = &program.ops[put as usize];
            let data = self.taken[put as usize].clone();
            let awaited = (op.peer == unit.rank && op.unit != number).then_some(number);
            self.write(op.peer, awaited, op.target, &data);
        }
    }

    /// What a step leaves in a region, or in one buffer of an array.
    fn computed(
        &mut self,
        (number, unit): (u32, &Unit),
        step: Option<&LocalWork<'_>>,
        ops: &[Op],
        (at, op): (u32, &Op),
    ) -> Pieces {
        if let Some(by) = step.and_then(|step| step.by) {
            let reads = unit.first_op as usize..at as usize;
            let parts: Vec<Pieces> = self.taken[reads].to_vec();
            let parts: Vec<&Pieces> = parts.iter().collect();
            return reduce(by, &parts, 0..op.target.len(), at, self.values);
        }
        let part = usize::from(op.part);
        let equation = step.and_then(|step| {
            let is_own = |to: u32| step.reads.len() + to as usize == part;
            step.computes.iter().find(|equation| is_own(equation.to))
        });
        let Some(equation) = equation else {
            let made = self.values.term(made_by(number, at));
            return Pieces::one(op.target.len(), made);
        };
        let before = part_of(ops, part).take_while(|(nth, _)| unit.first_op + *nth as u32 != at);
        let begin: u64 = before.map(|(_, op)| op.target.len()).sum();
        let read = |&region: &u32| {
            let ops = part_of(ops, region as usize);
            Pieces::concat(ops.map(|(nth, _)| &self.taken[unit.first_op as usize + nth]))
        };
        let parts: Vec<Pieces> = equation.of.iter().map(read).collect();
        let parts: Vec<&Pieces> = parts.iter().collect();
        reduce(equation.by, &parts, begin..begin + op.target.len(), at, self.values)
    }

    fn collective(&mut self, kind: Kind, meeting: usize, op: u32) -> Pieces {
        let meeting = &self.links.collectives[meeting];
        let members = meeting.members.iter();
        let parts: Vec<&Pieces> = members.map(|op| &self.taken[*op as usize]).collect();
        let own = meeting.members.iter().position(|one| *one == op).unwrap_or(0);
        let root = meeting.root.unwrap_or(0) as usize;
        // All members leave one value, which the first one is said to have made.
        let first = meeting.members.first().copied().unwrap_or(op);
        collective(kind, &parts, own, root, first, self.values)
    }
}

fn initial(program: &Program, values: &mut Values) -> Memory {
    let mut memory = Memory::new();
    for rank in 0..program.ranks() as u32 {
        for (object, of) in (0..).zip(&program.objects.all) {
            let contents = Contents::new(of.len.on(rank as usize), values.term((rank, object, 0)));
            memory.insert((rank, object), contents);
        }
    }
    memory
}

/// What a member receives, from what all sent.
pub(super) fn collective(
    kind: Kind,
    parts: &[&Pieces],
    own: usize,
    root: usize,
    op: u32,
    values: &mut Values,
) -> Pieces {
    let share = |part: &Pieces| {
        let count = part.len() / parts.len() as u64;
        own as u64 * count..(own as u64 + 1) * count
    };
    let spec = kind.spec();
    let senders = if spec.send.only_root { root..root + 1 } else { 0..parts.len() };
    match (kind.reduction(), spec.send.is_whole) {
        _ if !spec.recv.is_on(own == root) => Pieces::default(),
        (Some(by), false) => reduce(by, parts, 0..parts[0].len(), op, values),
        (Some(by), true) => reduce(by, parts, share(parts[0]), op, values),
        (None, false) => Pieces::concat(parts[senders].iter().copied()),
        (None, true) => {
            let shares = parts[senders].iter().map(|part| part.slice(share(part), values));
            Pieces::concat(&shares.collect::<Vec<_>>())
        }
    }
}

/// A range of the parts, reduced element by element.
pub(super) fn reduce(
    by: Reduction,
    parts: &[&Pieces],
    range: Range<u64>,
    op: u32,
    values: &mut Values,
) -> Pieces {
    let mut reduced = Pieces::default();
    for piece in together(parts, range) {
        let all: Vec<u32> = parts.iter().filter_map(|part| part.at(piece.start, values)).collect();
        let len = piece.end - piece.start;
        reduced.push(len, values.reduce(by, &all, (op, piece.start), len));
    }
    reduced
}
