//! One run, followed element by element.

use std::collections::HashMap;
use std::ops::Range;

use super::values::{Value, Values};
use crate::check::deadlock;
use crate::check::equations::{Equations, part_of};
use crate::check::instance::Instance;
use crate::check::links::Links;
use crate::check::local::Local;
use crate::ir::{Compute, Reduction};
use crate::program::{Kind, NONE, Op, OpKind, Program, Span, Unit};

/// The memory of all ranks: for each rank and object, an identity per element.
type Memory = HashMap<(u32, u32), Vec<u32>>;

/// A run that is being followed.
pub(super) struct Run<'a> {
    program: &'a Program,
    links: &'a Links,
    values: &'a mut Values,
    memory: Memory,
    /// What each operation read when its unit started.
    taken: Vec<Vec<u32>>,
    equations: Equations<'a>,
    /// Of each receive, the send.
    from: HashMap<u32, u32>,
    /// Of each collective's operation, the meeting.
    meeting: HashMap<u32, usize>,
    /// The puts that have arrived when a unit ends.
    arriving: HashMap<u32, Vec<u32>>,
}

impl<'a> Run<'a> {
    /// Follows all of it, in an order that everything keeps.
    pub(super) fn new(instance: &Instance<'a>, links: &'a Links, values: &'a mut Values) -> Self {
        let program = instance.program;
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
            taken: vec![Vec::new(); program.ops.len()],
            equations: Equations::new(instance.plan),
            from: messages.map(|message| (message.receive, message.send)).collect(),
            meeting,
            arriving,
        };
        let graph = deadlock::blocks(program, links, &Local::new(program, 1), false);
        let units = program.units.len() as u32;
        for node in graph.sorted().into_iter().filter(|node| *node < 2 * units) {
            let unit = &program.units[node as usize / 2];
            if node % 2 == 0 { run.start(unit) } else { run.end(node / 2, unit) }
        }
        run
    }

    pub(super) fn read(&self, rank: u32, span: Span) -> Vec<u32> {
        if span.object == NONE {
            return Vec::new();
        }
        self.memory[&(rank, span.object)][span.start as usize..span.end as usize].to_vec()
    }

    fn write(&mut self, rank: u32, span: Span, data: &[u32]) {
        if span.object != NONE
            && let Some(object) = self.memory.get_mut(&(rank, span.object))
        {
            let place = &mut object[span.start as usize..span.end as usize];
            if place.len() == data.len() {
                place.copy_from_slice(data);
            }
        }
    }

    fn start(&mut self, unit: &Unit) {
        for (at, op) in (unit.first_op..).zip(self.program.ops_of(unit)) {
            self.taken[at as usize] = self.read(unit.rank, op.source);
        }
    }

    fn end(&mut self, number: u32, unit: &Unit) {
        let program = self.program;
        let ops = program.ops_of(unit);
        let step = self.equations.step(unit);
        for (at, op) in (unit.first_op..).zip(ops) {
            let data = match op.kind {
                OpKind::Write => self.computed((number, unit), step, ops, (at, op)),
                OpKind::Receive => match self.from.get(&at) {
                    Some(send) => self.taken[*send as usize].clone(),
                    None => Vec::new(),
                },
                OpKind::Collective(kind) => match self.meeting.get(&at) {
                    Some(&meeting) => self.collective(kind, meeting, at),
                    None => continue,
                },
                _ => continue,
            };
            if data.len() as u64 == op.target.len() {
                self.write(unit.rank, op.target, &data);
            }
        }
        for put in self.arriving.remove(&number).into_iter().flatten() {
            let op = &program.ops[put as usize];
            let data = self.taken[put as usize].clone();
            self.write(op.peer, op.target, &data);
        }
    }

    /// What a step leaves in a region, or in one buffer of an array.
    fn computed(
        &mut self,
        (number, unit): (u32, &Unit),
        step: Option<&Compute>,
        ops: &[Op],
        (at, op): (u32, &Op),
    ) -> Vec<u32> {
        let part = usize::from(op.part);
        let equation = step.and_then(|step| {
            let is_own = |to: u32| step.reads.len() + to as usize == part;
            step.computes.iter().find(|equation| is_own(equation.to))
        });
        let Some(equation) = equation else {
            let unknown = |mark| Value::Unknown { cause: Some(number), mark: (at, mark) };
            return (0..op.target.len()).map(|mark| self.values.id(unknown(mark))).collect();
        };
        let before = part_of(ops, part).take_while(|(nth, _)| unit.first_op + *nth as u32 != at);
        let begin: u64 = before.map(|(_, op)| op.target.len()).sum();
        let read = |&region: &u32| -> Vec<u32> {
            let ops = part_of(ops, region as usize);
            ops.flat_map(|(nth, _)| &self.taken[unit.first_op as usize + nth]).copied().collect()
        };
        let parts: Vec<Vec<u32>> = equation.of.iter().map(read).collect();
        (begin..begin + op.target.len())
            .map(|element| {
                let all = parts.iter().filter_map(|part| part.get(element as usize).copied());
                let all: Vec<u32> = all.collect();
                self.values.reduce(equation.by, &all, at, element)
            })
            .collect()
    }

    fn collective(&mut self, kind: Kind, meeting: usize, op: u32) -> Vec<u32> {
        let meeting = &self.links.collectives[meeting];
        let members = meeting.members.iter();
        let parts: Vec<&[u32]> = members.map(|op| self.taken[*op as usize].as_slice()).collect();
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
            let all = (0..of.len).map(|at| values.term((rank, object, at)));
            memory.insert((rank, object), all.collect());
        }
    }
    memory
}

/// What a member receives, from what all sent.
pub(super) fn collective(
    kind: Kind,
    parts: &[&[u32]],
    own: usize,
    root: usize,
    op: u32,
    values: &mut Values,
) -> Vec<u32> {
    let size = parts.len();
    let mut reduce = |by: Reduction, range: Range<usize>| -> Vec<u32> {
        range
            .map(|at| {
                let all: Vec<u32> = parts.iter().map(|part| part[at]).collect();
                values.reduce(by, &all, op, at as u64)
            })
            .collect()
    };
    let share = |part: &[u32], at: usize| {
        let count = part.len() / size;
        part[at * count..(at + 1) * count].to_vec()
    };
    let spec = kind.spec();
    let senders = if spec.send.only_root { root..root + 1 } else { 0..size };
    match (kind.reduction(), spec.send.is_whole) {
        _ if !spec.recv.is_on(own == root) => Vec::new(),
        (Some(by), false) => reduce(by, 0..parts[0].len()),
        (Some(by), true) => {
            let count = parts[0].len() / size;
            reduce(by, own * count..(own + 1) * count)
        }
        (None, false) => parts[senders].concat(),
        (None, true) => parts[senders].iter().flat_map(|part| share(part, own)).collect(),
    }
}
