//! Decides which neighbours share a group: pair by pair, in the order of the statements, for all
//! ranks at once.
//!
//! Two neighbours are joined if that changes only the number of launches: nothing starts later,
//! nothing that needs only the first waits for the second, and operations that NCCL does not order
//! within a group touch different memory. [`settle`](super::settle) checks the rest on the whole
//! plan.

use std::collections::HashMap;

use super::last::Last;
use super::turns::{Class, Kind, Turns};
use super::uses::{self, Uses};
use super::words::Words;
use crate::check::{Clocks, Instance, Links, Local};
use crate::ir::{Order, Plan};
use crate::program::{Op, OpKind, Program};
use crate::verdict::Rejected;

/// NCCL's limit of operations in a group.
const MOST: u64 = 2048;

/// Neighbours, by turn, and why they do not share a group, if they do not.
pub(super) struct Pair {
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) apart: Option<String>,
}

/// The decisions.
pub(super) struct Groups {
    /// The turns of each group, in order.
    pub(super) turns: Vec<Vec<u32>>,
    /// The group of each turn.
    pub(super) of: Vec<u32>,
    pub(super) pairs: Vec<Pair>,
}

/// A group that may still grow.
#[derive(Default)]
struct Open {
    /// The first unit of each rank.
    first: HashMap<u32, u32>,
    /// The number of operations of each rank.
    ops: HashMap<u32, u64>,
    /// By rank and object.
    uses: Uses<(u32, u32)>,
}

struct Greedy<'a> {
    plan: &'a Plan,
    program: &'a Program,
    turns: &'a Turns,
    words: &'a Words<'a>,
    /// The beginning of the last of these runs, which has every wait that a run can have.
    run: u32,
    local: Local,
    clocks: Clocks,
    last: Last,
    open: Vec<Open>,
    groups: Groups,
}

pub(super) fn groups(
    instance: &Instance<'_>,
    links: &Links,
    words: &Words<'_>,
) -> Result<(Turns, Groups), Rejected> {
    let &Instance { plan, program, .. } = instance;
    let turns = Turns::new(program, links);
    let runs = runs(plan);
    let local = Local::new(program, runs);
    let greedy = Greedy {
        plan,
        program,
        turns: &turns,
        words,
        run: (program.units.len() * (runs - 1)) as u32,
        clocks: Clocks::new(program, &local, runs),
        local,
        last: Last::new(program),
        open: Vec::new(),
        groups: Groups { turns: Vec::new(), of: Vec::new(), pairs: Vec::new() },
    };
    let groups = greedy.run(instance)?;
    Ok((turns, groups))
}

/// How many runs show every wait that a run can have.
pub(super) fn runs(plan: &Plan) -> usize {
    match plan.replayed {
        false => 1,
        true if plan.buffers.iter().any(|buffer| buffer.copies == 2) => 4,
        true => 2,
    }
}

impl Greedy<'_> {
    fn run(mut self, instance: &Instance<'_>) -> Result<Groups, Rejected> {
        // The last communication of all streams, and of each.
        let mut latest: Option<u32> = None;
        let mut spoken: Vec<Option<u32>> = vec![None; self.program.streams];
        for turn in self.turns.all() {
            instance.in_time()?;
            let units = self.turns.units(turn);
            let mut target = None;
            if self.turns.kind(turn) != Kind::Compute && !units.is_empty() {
                let stream = usize::from(self.program.units[units[0] as usize].stream);
                if let Some(first) = latest.filter(|_| latest != spoken[stream]) {
                    let why = format!(
                        "they are on two streams, `{}` and `{}`",
                        self.words.stream(self.stream(first)),
                        self.words.stream(stream as u16)
                    );
                    self.tell(first, turn, Some(why));
                }
                if let Some(first) = spoken[stream] {
                    let verdict = self.judge(turn, &spoken);
                    let first = match verdict {
                        Ok(group) | Err((Some(group), _)) => self.last_of(group),
                        Err((None, _)) => first,
                    };
                    let apart = verdict.as_ref().err().map(|(_, why)| why.clone());
                    target = verdict.ok();
                    self.tell(first, turn, apart);
                }
                latest = Some(turn as u32);
                spoken[stream] = latest;
            }
            self.issue(turn, target);
        }
        Ok(self.groups)
    }

    fn stream(&self, turn: u32) -> u16 {
        self.program.units[self.turns.units(turn as usize)[0] as usize].stream
    }

    fn last_of(&self, group: u32) -> u32 {
        self.groups.turns[group as usize].last().copied().unwrap_or_default()
    }

    fn tell(&mut self, first: u32, second: usize, apart: Option<String>) {
        self.groups.pairs.push(Pair { first, second: second as u32, apart });
    }

    /// Adds a turn to a group, or to one of its own.
    fn issue(&mut self, turn: usize, group: Option<u32>) {
        let group = group.unwrap_or_else(|| {
            self.groups.turns.push(Vec::new());
            self.open.push(Open::default());
            self.open.len() as u32 - 1
        });
        self.groups.of.push(group);
        self.groups.turns[group as usize].push(turn as u32);
        let grows = matches!(self.turns.kind(turn), Kind::Like(..));
        let open = &mut self.open[group as usize];
        for &at in self.turns.units(turn) {
            let unit = &self.program.units[at as usize];
            self.last.issue(unit, at);
            if grows {
                let ops = self.program.ops_of(unit);
                open.first.entry(unit.rank).or_insert(at);
                *open.ops.entry(unit.rank).or_default() += weight(self.program, ops);
                ops.iter()
                    .flat_map(|op| uses::of(unit.rank, op))
                    .for_each(|one| open.uses.add(one));
            }
        }
    }

    /// The group that a turn joins; or why it joins none, and the candidate.
    fn judge(&self, turn: usize, spoken: &[Option<u32>]) -> Result<u32, (Option<u32>, String)> {
        let units = self.turns.units(turn);
        let unit = |at: u32| &self.program.units[at as usize];
        let before = units.iter().filter_map(|&at| self.last.before(unit(at)));
        let Some(before) = before.max_by_key(|&at| unit(at).turn) else {
            return Err((None, "no rank runs both".to_owned()));
        };
        let group = self.groups.of[unit(before).turn as usize];
        if unit(before).is_compute {
            let why = format!("{} is between them", self.words.unit(self.program, before));
            return Err((None, why));
        }
        let apart = |why: String| Err((Some(group), why));
        let last = self.last_of(group);
        if let Err(why) = self.alike(last as usize, turn) {
            return apart(why);
        }
        if self.plan.order == Order::Implicit && spoken.iter().flatten().any(|&turn| turn > last) {
            return apart(
                "communication on another stream is between them, and NCCL takes the order of the calls"
                    .to_owned(),
            );
        }
        let open = &self.open[group as usize];
        for &at in units {
            let rank = unit(at).rank;
            let Some(&first) = open.first.get(&rank) else { continue };
            // The last operation of this rank on the stream must be the group's.
            let own = self.last.before(unit(at));
            let Some(own) = own.filter(|&own| self.groups.of[unit(own).turn as usize] == group)
            else {
                return apart(format!("another statement is between them on rank {rank}"));
            };
            if let Err(why) = self.joins(open, group, (first, own), at) {
                return apart(why);
            }
        }
        Ok(group)
    }

    /// Whether the kinds of two turns allow them to share a group.
    fn alike(&self, first: usize, second: usize) -> Result<(), String> {
        match (self.turns.kind(first), self.turns.kind(second)) {
            (Kind::Alone(why), _) => Err(format!("the first: {why}")),
            (_, Kind::Alone(why)) => Err(format!("the second: {why}")),
            (Kind::Like(a, _), Kind::Like(b, _)) if a != b => {
                let names = [a, b].map(|class| match class {
                    Class::Messages => "messages",
                    Class::Collectives => "collectives",
                    Class::MessageCollectives => "collectives that NCCL makes messages of",
                    Class::OneSided => "one-sided operations",
                });
                Err(format!(
                    "{} and {}: NCCL launches a group kind by kind, not in the order of its calls",
                    names[0], names[1]
                ))
            }
            (Kind::Like(_, a), Kind::Like(_, b)) if a != b => {
                Err("they use two communicators, and NCCL launches a group once for each"
                    .to_owned())
            }
            (Kind::Like(..), Kind::Like(..)) => Ok(()),
            (Kind::Compute, _) | (_, Kind::Compute) => Err("one of them computes".to_owned()),
        }
    }

    /// Whether joining changes nothing on one rank: `first` and `last` are the group's there.
    fn joins(
        &self,
        open: &Open,
        group: u32,
        (first, last): (u32, u32),
        second: u32,
    ) -> Result<(), String> {
        let (program, run) = (self.program, self.run);
        let unit = |at: u32| &program.units[at as usize];
        let rank = unit(second).rank;
        let ops = program.ops_of(unit(second));
        let mut own = ops.iter().flat_map(|op| uses::of(rank, op));
        if let Some(((_, object), ..)) = own.find(|one| open.uses.clashes(one)) {
            return Err(format!(
                "both touch `{}`, and one writes: the second needs the first to have ended",
                self.words.buffer(program, object)
            ));
        }
        let have = open.ops.get(&rank).copied().unwrap_or_default();
        if have + weight(program, ops) > MOST {
            return Err(format!("NCCL takes {MOST} operations in a group"));
        }
        let units = program.units.len() as u32;
        for &earlier in self.local.before(run + second) {
            let at = earlier % units;
            let is_own = earlier >= run && self.groups.of[unit(at).turn as usize] == group;
            if !is_own && !self.clocks.ended(earlier, unit(at).stream, run + first) {
                let when = if earlier < run { " of the run before" } else { "" };
                return Err(format!(
                    "the second waits for {}{when}, which the first need not wait for",
                    self.words.unit(program, at)
                ));
            }
        }
        let stream = unit(first).stream;
        for between in last + 1..second {
            if unit(between).stream != stream
                && self.clocks.ended(run + first, stream, run + between)
            {
                return Err(format!(
                    "{} waits for the first, and would wait for the second too",
                    self.words.unit(program, between)
                ));
            }
        }
        Ok(())
    }
}

/// The number of NCCL operations: an all-to-all is a send and a receive for each rank.
fn weight(program: &Program, ops: &[Op]) -> u64 {
    let weight = |op: &Op| match op.kind {
        OpKind::Collective(kind) if kind.name().is_messages() => {
            2 * program.layout.members(usize::from(op.communicator)) as u64
        }
        _ => 1,
    };
    ops.iter().map(weight).sum()
}
