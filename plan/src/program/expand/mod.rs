//! From statements to units: all ranks walk the statements in order, each by its own bounds and guards.

mod peers;
mod spans;

use std::collections::HashMap;

use super::objects::NoMemory;
use super::statements::{Numbered, Statements};
use super::{
    Budget, DOES_NOT_FIT, Env, Kind, Layout, NONE, NoValue, Objects, Op, OpKind, Program, Shift,
    Span, Unit, fits,
};
use crate::ir::{
    Awaited, Collective, Compute, Condition, Expr, Location, Place, Plan, Put, StepKind, Transfer,
};
use crate::verdict::{Check, Line, Problem, ProblemKind, Sizes};

/// Operations of one instance at most, over all ranks: more is refused by name.
const MOST_OPERATIONS: usize = 3_500_000;

/// Buffers on a rank at most, each of an array and each copy counted.
const MOST_OBJECTS: u64 = 1 << 20;

/// Writes an instance out.
pub(crate) fn expand(
    plan: &Plan,
    statements: &Statements<'_>,
    sizes: &Sizes,
    budget: &mut Budget,
) -> Result<Program, Vec<Problem>> {
    let too_large = |title: String| {
        vec![Problem {
            kind: ProblemKind::TooLarge,
            title,
            at: Location::default(),
            sizes: Some(sizes.clone()),
            story: Vec::new(),
            help: vec!["check it for smaller sizes".to_owned()],
        }]
    };
    if !fits(plan) {
        return Err(too_large(DOES_NOT_FIT.to_owned()));
    }
    // What is laid out for every instance, however little it does.
    let ranks = sizes.extents.iter().fold(1_u64, |all, &extent| all.saturating_mul(extent as u64));
    let members = ranks.saturating_mul(plan.communicators.len() as u64);
    if !budget.take((members / 8).saturating_add(statements.places.len() as u64 / 32)) {
        return Err(too_large("this is more than what is checked".to_owned()));
    }
    let Some(layout) = Layout::new(plan, &sizes.extents) else {
        return Err(too_large("there are more than 4,194,304 ranks".to_owned()));
    };
    let objects = Objects::new(plan, &sizes.extents, &sizes.params, MOST_OBJECTS);
    let objects = objects.map_err(|why| {
        let (buffer, title) = match why {
            NoMemory::TooMany => {
                return too_large("there are more than 1,048,576 buffers on a rank".to_owned());
            }
            NoMemory::NoValue(buffer, why) => (buffer, why.to_string()),
            NoMemory::Negative(buffer, len) => (buffer, format!("this length is {len}")),
        };
        let buffer = &plan.buffers[buffer.index()];
        vec![Problem {
            kind: ProblemKind::Broken(Check::Bounds),
            title: format!("buffer `{}` has no length: {title}", buffer.name),
            at: buffer.at,
            sizes: Some(sizes.clone()),
            story: Vec::new(),
            help: vec!["say with `where` what the parameters promise".to_owned()],
        }]
    })?;
    if !budget.take(objects.all.len() as u64) {
        return Err(too_large("this is more than what is checked".to_owned()));
    }
    let ranks = layout.size;
    let mut walk = Walk {
        plan,
        places: &statements.places,
        sizes,
        counters: vec![None; plan.counters.len()],
        objects: &objects,
        layout: &layout,
        budget,
        pending: Vec::new(),
        grouped: None,
        units: Vec::new(),
        ops: Vec::new(),
        problems: Vec::new(),
        stopped: false,
        shifts: Vec::new(),
        known_shifts: HashMap::new(),
        turn: 0,
        bounded: vec![false; statements.places.len()],
    };
    walk.steps(&statements.steps, &Active::All);
    let Walk { units, ops, mut problems, stopped, shifts, .. } = walk;
    if stopped {
        problems.extend(too_large("this is more than what is checked".to_owned()));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let (units, ops, begins) = by_rank(ranks, units, ops);
    Ok(Program {
        layout,
        objects,
        places: statements.places.clone(),
        units,
        begins,
        ops,
        streams: plan.streams.len(),
        communicators: plan.communicators.len(),
        shifts,
        exact: false,
    })
}

/// Sorts units by rank, keeping the order of issue, and their operations with them.
fn by_rank(ranks: usize, units: Vec<Unit>, ops: Vec<Op>) -> (Vec<Unit>, Vec<Op>, Vec<u32>) {
    let mut begins = vec![0_u32; ranks + 1];
    for unit in &units {
        begins[unit.rank as usize + 1] += 1;
    }
    for rank in 0..ranks {
        begins[rank + 1] += begins[rank];
    }
    let mut order = vec![0_u32; units.len()];
    let mut next = begins.clone();
    for (at, unit) in units.iter().enumerate() {
        let slot = &mut next[unit.rank as usize];
        order[*slot as usize] = at as u32;
        *slot += 1;
    }
    let mut sorted_ops = Vec::with_capacity(ops.len());
    let sorted = order
        .iter()
        .map(|&at| {
            let mut unit = units[at as usize].clone();
            let first = sorted_ops.len() as u32;
            let own = &ops[unit.first_op as usize..][..unit.ops as usize];
            sorted_ops.extend_from_slice(own);
            unit.first_op = first;
            unit
        })
        .collect();
    (sorted, sorted_ops, begins)
}

/// Which ranks run a statement.
enum Active {
    All,
    Some(Vec<bool>),
}

impl Active {
    fn is(&self, rank: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(ranks) => ranks[rank],
        }
    }
}

/// Which half of a transfer is issued, and to whom.
#[derive(Clone, Copy, PartialEq)]
enum Halves {
    Both,
    Sends,
    FromLower,
    FromHigher,
}

struct Walk<'a> {
    plan: &'a Plan,
    places: &'a [Location],
    sizes: &'a Sizes,
    counters: Vec<Option<i64>>,
    objects: &'a Objects,
    layout: &'a Layout,
    budget: &'a mut Budget,
    /// Operations of the statement or group at hand, with their ranks.
    pending: Vec<(u32, Op, u64)>,
    /// The group at hand.
    grouped: Option<u32>,
    units: Vec<Unit>,
    ops: Vec<Op>,
    problems: Vec<Problem>,
    /// Whether there is more than what is checked.
    stopped: bool,
    shifts: Vec<Shift>,
    /// Their places in the list.
    known_shifts: HashMap<Vec<(u32, i64, bool)>, u32>,
    /// How often a statement was issued.
    turn: u32,
    /// Statements of which a problem was told.
    bounded: Vec<bool>,
}

impl Walk<'_> {
    fn env(&self, rank: usize) -> Env<'_> {
        Env {
            extents: &self.sizes.extents,
            size: self.layout.size as i64,
            params: &self.sizes.params,
            counters: &self.counters,
            rank: rank as i64,
        }
    }

    fn steps(&mut self, steps: &[Numbered<'_>], active: &Active) {
        for step in steps {
            if self.stopped {
                return;
            }
            self.step(step, active);
        }
    }

    fn step(&mut self, step: &Numbered<'_>, active: &Active) {
        let number = step.number;
        match &step.step.kind {
            StepKind::Loop(this) => {
                let bounds = (&this.from, &this.to);
                self.repeat(step, bounds, this.counter.index(), this.reverse, active);
            }
            StepKind::When(this) => {
                let some = self.guarded(step, &this.condition, active);
                self.steps(&step.body, &Active::Some(some));
            }
            StepKind::Group(_) => {
                self.grouped = Some(number);
                self.steps(&step.body, active);
                self.grouped = None;
                self.issue(number);
            }
            StepKind::Sequence(_) => self.sequence(&step.body, active),
            _ => {
                self.leaf(step, active, Halves::Both);
                if self.grouped.is_none() {
                    self.issue(number);
                }
            }
        }
    }

    /// The ranks among those for which a condition holds.
    fn guarded(
        &mut self,
        step: &Numbered<'_>,
        condition: &Condition,
        active: &Active,
    ) -> Vec<bool> {
        let (number, ranks) = (step.number, 0..self.layout.size);
        if !self.spend(step.weight.saturating_mul(self.layout.size as u64)) {
            return vec![false; self.layout.size];
        }
        let mut holds = |rank: usize| match self.env(rank).holds(condition) {
            Ok(holds) => holds,
            Err(why) => {
                self.no_value(number, rank, why);
                false
            }
        };
        ranks.map(|rank| active.is(rank) && holds(rank)).collect()
    }

    /// A rank receives from lower ones first, then runs its own, then receives from higher ones. Each
    /// statement is a unit.
    fn sequence(&mut self, body: &[Numbered<'_>], active: &Active) {
        for halves in [Halves::FromLower, Halves::Sends, Halves::FromHigher] {
            self.halves(body, active, halves);
        }
    }

    fn halves(&mut self, body: &[Numbered<'_>], active: &Active, halves: Halves) {
        for step in body {
            if self.stopped {
                return;
            }
            match &step.step.kind {
                StepKind::When(this) => {
                    let some = self.guarded(step, &this.condition, active);
                    self.halves(&step.body, &Active::Some(some), halves);
                }
                StepKind::Transfer(_) => {
                    self.leaf(step, active, halves);
                    self.issue(step.number);
                }
                _ if halves == Halves::Sends => {
                    self.leaf(step, active, halves);
                    self.issue(step.number);
                }
                _ => {}
            }
        }
    }

    fn repeat(
        &mut self,
        step: &Numbered<'_>,
        (from, to): (&Expr, &Expr),
        counter: usize,
        reverse: bool,
        active: &Active,
    ) {
        let varies = from.mentions_rank() || to.mentions_rank();
        let ranks = if varies { self.layout.size } else { 1 };
        if !self.spend(step.weight.saturating_mul(ranks as u64)) {
            return;
        }
        let mut bounds = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            let env = self.env(rank);
            match (env.eval(from), env.eval(to)) {
                (Ok(from), Ok(to)) => bounds.push((from, to)),
                (Err(why), _) | (_, Err(why)) => {
                    self.no_value(step.number, rank, why);
                    bounds.push((0, 0));
                }
            }
        }
        let among = bounds.iter().enumerate().filter(|(rank, _)| !varies || active.is(*rank));
        let filled: Vec<_> = among.map(|(_, bounds)| *bounds).filter(|(a, b)| a < b).collect();
        let Some(first) = filled.iter().map(|(from, _)| *from).min() else { return };
        let last = filled.iter().map(|(_, to)| *to).max().unwrap_or(first);
        let mut value = if reverse { last - 1 } else { first };
        while (first..last).contains(&value) {
            if self.stopped || !self.spend(1 + bounds.len() as u64) {
                break;
            }
            self.counters[counter] = Some(value);
            if varies {
                let some = bounds
                    .iter()
                    .enumerate()
                    .map(|(rank, (from, to))| active.is(rank) && (*from..*to).contains(&value))
                    .collect();
                self.steps(&step.body, &Active::Some(some));
            } else {
                self.steps(&step.body, active);
            }
            value += if reverse { -1 } else { 1 };
        }
        self.counters[counter] = None;
    }

    fn spend(&mut self, work: u64) -> bool {
        if !self.budget.take(work) {
            self.stopped = true;
        }
        !self.stopped
    }

    /// Makes units of what is pending: one for each rank that has something.
    fn issue(&mut self, statement: u32) {
        let mut pending = std::mem::take(&mut self.pending);
        if pending.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            pending.sort_by_key(|(rank, ..)| *rank);
        }
        let mut begin = 0;
        while begin < pending.len() {
            let rank = pending[begin].0;
            let end = begin + pending[begin..].partition_point(|(other, ..)| *other == rank);
            let first_op = self.ops.len() as u32;
            let of_unit = &pending[begin..end];
            self.ops.extend(of_unit.iter().map(|(_, op, _)| op.clone()));
            let first = &of_unit[0].1;
            self.units.push(Unit {
                rank,
                statement,
                turn: self.turn,
                first_op,
                ops: (end - begin) as u32,
                stream: first.stream,
                is_compute: first.kind.is_access(),
                after: of_unit.iter().fold(0, |set, (.., after)| set | after),
            });
            begin = end;
        }
        pending.clear();
        self.turn += 1;
        self.pending = pending;
    }

    fn leaf(&mut self, step: &Numbered<'_>, active: &Active, halves: Halves) {
        if !self.spend(step.weight.saturating_mul(self.layout.size as u64)) {
            return;
        }
        let number = step.number;
        match &step.step.kind {
            StepKind::Transfer(this) => self.transfer(number, this, active, halves),
            kind => {
                // A distance is the same on all ranks.
                let shifts: Vec<u32> = match kind {
                    StepKind::Send(this) => vec![self.shift(0, &this.peer)],
                    StepKind::Receive(this) => vec![self.shift(0, &this.peer)],
                    StepKind::Put(this) => vec![self.shift(0, &this.peer)],
                    StepKind::Signal(this) => vec![self.shift(0, &this.peer)],
                    StepKind::Wait(this) => {
                        this.signals.iter().map(|awaited| self.shift(0, &awaited.peer)).collect()
                    }
                    _ => Vec::new(),
                };
                let shift = shifts.first().copied().unwrap_or(NONE);
                for rank in (0..self.layout.size).filter(|rank| active.is(*rank)) {
                    if self.stopped {
                        return;
                    }
                    match kind {
                        StepKind::Compute(this) => self.compute(number, rank, this),
                        StepKind::Collective(this) => self.collective(number, rank, this),
                        StepKind::Send(this) => {
                            let peer = self.peer(number, rank, &this.peer, this.among.index());
                            if let Some(peer) = peer
                                && let Some(source) = self.span(number, rank, &this.from)
                            {
                                let op = op(OpKind::Send, number, this.among.0, &this.place);
                                let op = Op { peer, shift, source, ..op };
                                self.push(rank, op, &this.place);
                            }
                        }
                        StepKind::Receive(this) => {
                            let peer = self.peer(number, rank, &this.peer, this.among.index());
                            if let Some(peer) = peer
                                && let Some(target) = self.span(number, rank, &this.to)
                            {
                                let op = op(OpKind::Receive, number, this.among.0, &this.place);
                                let op = Op { peer, shift, target, ..op };
                                self.push(rank, op, &this.place);
                            }
                        }
                        StepKind::Put(this) => self.put(number, rank, this, shift),
                        StepKind::Signal(this) => {
                            let peer = self.peer(number, rank, &this.peer, this.among.index());
                            if let Some(peer) = peer {
                                let op = op(OpKind::Signal, number, this.among.0, &this.place);
                                let op = Op { peer, shift, signal: this.signal.0, ..op };
                                self.push(rank, op, &this.place);
                            }
                        }
                        StepKind::Wait(this) => {
                            let op = op(OpKind::Wait, number, this.among.0, &this.place);
                            for (awaited, &shift) in this.signals.iter().zip(&shifts) {
                                let op = Op { shift, ..op.clone() };
                                self.awaited(number, rank, awaited, &op, &this.place);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    fn push(&mut self, rank: usize, op: Op, place: &Place) {
        if self.ops.len() + self.pending.len() >= MOST_OPERATIONS {
            self.stopped = true;
            return;
        }
        let after = place.after.iter().fold(0, |set, stream| set | 1 << stream.0);
        self.pending.push((rank as u32, op, after));
    }

    fn compute(&mut self, number: u32, rank: usize, this: &Compute) {
        for argument in &this.arguments {
            if let Err(why) = self.env(rank).eval(argument) {
                return self.no_value(number, rank, why);
            }
        }
        let kinds = [(OpKind::Read, &this.reads), (OpKind::Write, &this.writes)];
        let mut any = false;
        let mut part = 0;
        for (kind, regions) in kinds {
            for region in regions {
                part += 1;
                let array = &self.plan.buffers[region.buffer.index()].array;
                let every = array.is_some() && region.index.is_none();
                let count = if every { self.objects.count(region.buffer) } else { 1 };
                if !self.spend(u64::from(count)) {
                    return;
                }
                for index in 0..count {
                    let index = every.then_some(index);
                    if let Some(span) = self.span_of(number, rank, region, index) {
                        let op = op(kind, number, 0, &this.place);
                        let op = match kind {
                            OpKind::Read => Op { part: part - 1, source: span, ..op },
                            _ => Op { part: part - 1, target: span, ..op },
                        };
                        self.push(rank, op, &this.place);
                        any = true;
                    }
                }
            }
        }
        if !any {
            let op = op(OpKind::Read, number, 0, &this.place);
            self.push(rank, op, &this.place);
        }
    }

    fn collective(&mut self, number: u32, rank: usize, this: &Collective) {
        let among = this.among.index();
        let first = self.layout.first(among, rank);
        let members = self.layout.members(among);
        let root = match this.kind.root().map(|root| self.env(rank).eval(root)) {
            None => None,
            Some(Ok(root)) if (0..members as i64).contains(&root) => {
                Some(self.layout.member(among, first, root as usize))
            }
            Some(Ok(root)) => {
                let name = &self.plan.communicators[among].name;
                let title = format!("`{name}` has {members} ranks, and this root is {root}");
                let help = "name a rank of the communicator as the root";
                return self.out_of_bounds(number, rank, title, help);
            }
            Some(Err(why)) => return self.no_value(number, rank, why),
        };
        let kind = Kind::from(&this.kind);
        let is_root = root == Some(rank);
        let sends = !matches!(kind, Kind::Broadcast | Kind::Scatter) || is_root;
        let receives = !matches!(kind, Kind::Reduce(_) | Kind::Gather) || is_root;
        let span = |walk: &mut Self, region, used: bool| match used {
            true => walk.span(number, rank, region),
            false => Some(Span::NOTHING),
        };
        let (Some(source), Some(target)) =
            (span(self, &this.send, sends), span(self, &this.recv, receives))
        else {
            return;
        };
        if source.is_empty() && target.is_empty() && (sends || receives) {
            // A length of 0 is dropped; on a rank that only gives or only takes, that part counts.
            return;
        }
        let op = op(OpKind::Collective(kind), number, this.among.0, &this.place);
        let peer = root.map_or(NONE, |root| root as u32);
        self.push(rank, Op { peer, source, target, ..op }, &this.place);
    }

    fn put(&mut self, number: u32, rank: usize, this: &Put, shift: u32) {
        let Some(peer) = self.peer(number, rank, &this.peer, this.among.index()) else { return };
        let Some(source) = self.span(number, rank, &this.from) else { return };
        let Some(target) = self.span(number, rank, &this.to) else { return };
        let ends = [&this.from, &this.to].map(|region| &self.plan.buffers[region.buffer.index()]);
        let [(from, declare_from), (to, declare_to)] = ends.map(|buffer| {
            let role = buffer.role.word();
            let swapped = if buffer.copies == 2 { " swapped" } else { "" };
            (&buffer.name, format!("`{role}{swapped} window {}`", buffer.name))
        });
        let wrong = match ends.map(|buffer| buffer.window) {
            [true, true] => None,
            [false, false] if from != to => Some((
                format!("a put reads from `{from}` and writes into `{to}`, which are no windows"),
                format!("{declare_from} and {declare_to}"),
            )),
            [false, _] => {
                Some((format!("a put reads from `{from}`, which is no window"), declare_from))
            }
            [true, false] => {
                Some((format!("a put writes into `{to}`, which is no window"), declare_to))
            }
        };
        if let Some((title, declare)) = wrong {
            let help = format!("declare {declare}: puts read and write registered memory");
            return self.out_of_bounds(number, rank, title, &help);
        }
        let op = op(OpKind::Put, number, this.among.0, &this.place);
        let signal = this.signal.map_or(NONE, |signal| signal.0);
        self.push(rank, Op { peer, shift, signal, source, target, ..op }, &this.place);
    }

    fn awaited(&mut self, number: u32, rank: usize, this: &Awaited, op: &Op, place: &Place) {
        let Some(peer) = self.peer(number, rank, &this.peer, op.communicator.into()) else {
            return;
        };
        match self.env(rank).eval(&this.times) {
            Ok(times) if (0..=i64::from(u32::MAX >> 1)).contains(&times) => {
                if times > 0 && self.spend(times as u64 / 64) {
                    let (times, signal) = (times as u32, this.signal.0);
                    self.push(rank, Op { peer, signal, times, ..op.clone() }, place);
                }
            }
            Ok(times) => {
                let title = format!("a wait for {times} signals");
                self.out_of_bounds(number, rank, title, "wait for 0 to 2^31 signals");
            }
            Err(why) => self.no_value(number, rank, why),
        }
    }

    fn transfer(&mut self, number: u32, this: &Transfer, active: &Active, halves: Halves) {
        let among = this.among.index();
        let empty = Place { on: this.place.on, after: Vec::new() };
        let sender_of = self.senders(number, this, active);
        let shift = self.shift(0, &this.peer);
        let back = if shift == NONE { NONE } else { self.shifts[shift as usize].back };
        for rank in 0..self.layout.size {
            let sends = active.is(rank) && matches!(halves, Halves::Both | Halves::Sends);
            if sends && let Some(peer) = self.peer(number, rank, &this.peer, among) {
                // Both halves or none: the receiver's bounds are told where the receiver is.
                if let Some(source) = self.span(number, rank, &this.from) {
                    let op = op(OpKind::Send, number, this.among.0, &this.place);
                    self.push(rank, Op { peer, shift, source, ..op }, &this.place);
                }
            }
            if halves == Halves::Sends {
                continue;
            }
            let place = if halves == Halves::Both { &this.place } else { &empty };
            let from = |at: usize| sender_of.range(rank)[at];
            for at in 0..sender_of.range(rank).len() {
                let sender = from(at) as usize;
                let wanted = match halves {
                    Halves::FromLower => sender < rank,
                    Halves::FromHigher => sender > rank,
                    _ => true,
                };
                if wanted && let Some(target) = self.span(number, sender, &this.to) {
                    let op = op(OpKind::Receive, number, this.among.0, place);
                    self.push(rank, Op { peer: sender as u32, shift: back, target, ..op }, place);
                }
            }
        }
    }

    fn no_value(&mut self, number: u32, rank: usize, why: NoValue) {
        let help = "say with `where` what the parameters promise";
        self.out_of_bounds(number, rank, why.to_string(), help);
    }

    /// In which iteration of the loops around it a statement runs, for people.
    fn iteration(&self) -> String {
        let counters = self.plan.counters.iter().zip(&self.counters);
        let values = counters.filter_map(|(counter, value)| {
            value.map(|value| format!("`{}` = {value}", counter.name))
        });
        let values: Vec<String> = values.collect();
        if values.is_empty() {
            return "runs this".to_owned();
        }
        format!("runs this, with {}", values.join(", "))
    }

    fn out_of_bounds(&mut self, number: u32, rank: usize, title: String, help: &str) {
        if std::mem::replace(&mut self.bounded[number as usize], true) {
            return;
        }
        let at = self.places[number as usize];
        let text = self.iteration();
        // What the sentence says already is no story.
        let story = vec![Line { rank: Some(rank), other: None, at, text }];
        self.problems.push(Problem {
            kind: ProblemKind::Broken(Check::Bounds),
            title,
            at,
            sizes: Some(self.sizes.clone()),
            story,
            help: vec![help.to_owned()],
        });
    }
}

fn op(kind: OpKind, statement: u32, communicator: u32, place: &Place) -> Op {
    Op {
        kind,
        statement,
        communicator: communicator as u16,
        stream: place.on.0 as u16,
        part: 0,
        peer: NONE,
        shift: NONE,
        signal: NONE,
        times: 0,
        source: Span::NOTHING,
        target: Span::NOTHING,
    }
}
