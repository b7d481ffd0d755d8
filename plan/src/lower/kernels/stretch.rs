//! Calls that the ranks of a communicator could launch together: one on each, or several in a row.

use std::collections::HashMap;

use super::joins::Touched;
use super::legs::{Leg, legs};
use super::{Among, MOST_IN_A_KERNEL};
use crate::cost::{Groups, KernelTimes};
use crate::draw::Links;
use crate::ir::{CollectiveKind, ElementType, Location, Plan};
use crate::lower::{Operation, RankSchedule, Schedule};

/// Calls that kernels could do.
pub(super) struct Stretch {
    /// For each rank of the communicator, its calls in order.
    pub(super) calls: Vec<Vec<usize>>,
    pub(super) what: What,
    /// For each rank, the memory.
    pub(super) touched: Vec<Touched>,
    /// Seconds as kernels, if they take this many bytes.
    pub(super) own: Option<f64>,
    pub(super) by_nccl: f64,
    pub(super) choice: Choice,
    /// Why it does not share kernels with the one before it.
    pub(super) apart: &'static str,
}

/// What does the work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Kernel,
    Nccl,
    /// NCCL: a kernel waits for all ranks, which would make ranks wait for one another in a cycle.
    Circle,
}

/// A collective as seen by all ranks: its element type, its kind, and its length.
pub(super) type Collective = (ElementType, CollectiveKind<u32>, u64);

/// The work.
#[derive(Clone)]
pub(super) enum What {
    Collectives(Vec<Collective>),
    /// The legs of each rank.
    Messages(ElementType, Vec<Vec<Leg>>),
}

/// Identifies calls of several ranks that belong together.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    /// How many collectives the communicator had before.
    Collectives(usize),
    /// Its location, and how often that ran before.
    Messages(Location, usize),
}

/// All of them, in the order of the first rank.
pub(super) fn stretches(
    (schedule, plan): (&Schedule, &Plan),
    links: &Links<'_>,
    among: &Among,
    groups: &mut Groups<'_>,
) -> Vec<Stretch> {
    let of = |rank: &u32| keyed(&schedule.ranks[*rank as usize], among);
    let mut ranks = among.ranks.iter().map(of);
    let first = ranks.next().unwrap_or_default();
    let others: Vec<HashMap<Key, usize>> = ranks.map(|of| of.into_iter().collect()).collect();
    let mut all: Vec<Stretch> = Vec::new();
    let mut passed = vec![None; among.ranks.len()];
    for (key, call) in first {
        let calls = others.iter().map(|of| of.get(&key).copied());
        let calls: Option<Vec<usize>> = std::iter::once(Some(call)).chain(calls).collect();
        // Ranks that have two of them in different orders would wait for each other.
        let is_next = |of: &Vec<usize>| of.iter().zip(&passed).all(|(&at, last)| Some(at) > *last);
        let one = calls.filter(is_next).and_then(|calls| {
            let what = What::of((schedule, plan), links, among, &calls)?;
            Some(Stretch::new(schedule, among, calls, what, groups))
        });
        let Some(mut one) = one else { continue };
        let last = one.calls.iter().map(|of: &Vec<usize>| of.last().copied());
        passed.iter_mut().zip(last).for_each(|(passed, last)| *passed = last);
        let joins = |open: &mut Stretch| {
            open.fits(schedule, among, &one)?;
            open.join(&one, groups)
        };
        match all.last_mut().map_or(Err(""), joins) {
            Ok(()) => {}
            Err(apart) => {
                one.apart = apart;
                all.push(one);
            }
        }
    }
    for one in &mut all {
        let wins = one.own.is_some_and(|own| own < one.by_nccl);
        one.choice = if wins { Choice::Kernel } else { Choice::Nccl };
    }
    all
}

/// A rank's calls that could be kernels.
fn keyed(of: &RankSchedule, among: &Among) -> Vec<(Key, usize)> {
    let (mut keyed, mut collectives, mut runs) = (Vec::new(), 0, HashMap::new());
    let is_collective = |one: &Operation| matches!(one, Operation::Collective { .. });
    for (at, call) in of.calls.iter().enumerate().filter(|(_, call)| call.is_among(among.id)) {
        let operations = call.work.operations();
        let place = call.from.first().copied().unwrap_or_default();
        let run = runs.entry(place).or_insert(0);
        let key = match operations {
            [one, ..] if is_collective(one) => Key::Collectives(collectives),
            _ => Key::Messages(place, *run),
        };
        *run += 1;
        let own = operations.iter().filter(|one| one.among() == among.id);
        collectives += own.filter(|one| is_collective(one)).count();
        if operations.iter().all(|one| one.among() == among.id) {
            keyed.push((key, at));
        }
    }
    keyed
}

impl What {
    /// The joint work of all ranks' calls; `None` if no kernel does it.
    fn of(
        (schedule, plan): (&Schedule, &Plan),
        links: &Links<'_>,
        among: &Among,
        calls: &[usize],
    ) -> Option<Self> {
        let call = |rank: u32, at: usize| &schedule.ranks[rank as usize].calls[at];
        let mut all = among.ranks.iter().zip(calls).map(|(&rank, &at)| call(rank, at));
        let is_message =
            |one: &Operation| matches!(one, Operation::Send { .. } | Operation::Receive { .. });
        let first = all.next()?.work.operations();
        if first.iter().all(is_message) {
            let is_like = |of: &[Operation]| of.iter().all(is_message);
            if !all.all(|call| is_like(call.work.operations())) {
                return None;
            }
            let (element, legs) = legs(plan, links, among, calls)?;
            return Some(Self::Messages(element, legs));
        }
        let first = collectives(plan, first)?;
        let is_same = |of| collectives(plan, of).is_some_and(|of| of == first);
        all.all(|call| is_same(call.work.operations())).then_some(Self::Collectives(first))
    }

    /// Seconds of the kernels for it among this many ranks; `None` if they do not take this many
    /// bytes.
    fn takes(&self, ranks: usize, times: &KernelTimes) -> Option<f64> {
        match self {
            Self::Collectives(all) => {
                let of = |kernel: Vec<usize>| {
                    let bytes = |&at: &usize| all[at].2 * all[at].0.bytes();
                    let bytes = kernel.iter().map(bytes).sum::<u64>() as f64;
                    times.collectives(&all[kernel[0]].1, ranks, kernel.len(), bytes)
                };
                kernels(all, ranks).into_iter().map(of).sum()
            }
            Self::Messages(element, legs) => {
                let elements: u64 = legs[0].iter().map(|leg| leg.len).sum();
                times.messages(legs[0].len(), (elements * element.bytes()) as f64)
            }
        }
    }
}

/// The collectives, if kernels do all of them.
fn collectives(plan: &Plan, operations: &[Operation]) -> Option<Vec<Collective>> {
    let one = |operation: &Operation| {
        let Operation::Collective { kind, send: Some(send), recv: Some(_), .. } = operation else {
            return None;
        };
        let element = plan.buffers.get(send.buffer as usize)?.element.clone();
        let is_known = match kind {
            CollectiveKind::AllReduce(_) => element.is_computed_by_kernels(),
            CollectiveKind::AllToAll => true,
            _ => false,
        };
        let is_known = is_known && element.is_moved_by_kernels();
        (is_known && send.len() > 0).then(|| (element, *kind, send.len()))
    };
    operations.iter().map(one).collect()
}

/// The collectives of each kernel: those of one element type and one kind, in order.
pub(super) fn kernels(all: &[Collective], ranks: usize) -> Vec<Vec<usize>> {
    let (mut kernels, mut open): (Vec<Vec<usize>>, HashMap<_, usize>) = Default::default();
    for (at, (element, kind, _)) in all.iter().enumerate() {
        let pieces = if *kind == CollectiveKind::AllToAll { ranks } else { 1 };
        let kernel = open.entry((element, kind)).or_insert(kernels.len());
        if kernels.get(*kernel).is_some_and(|of| of.len() == MOST_IN_A_KERNEL / pieces) {
            *kernel = kernels.len();
        }
        if *kernel == kernels.len() {
            kernels.push(Vec::new());
        }
        kernels[*kernel].push(at);
    }
    kernels
}

impl Stretch {
    /// One call of each rank.
    fn new(
        schedule: &Schedule,
        among: &Among,
        calls: Vec<usize>,
        what: What,
        groups: &mut Groups<'_>,
    ) -> Self {
        let (mut touched, mut by_nccl) = (Vec::new(), 0.0_f64);
        for (&rank, &at) in among.ranks.iter().zip(&calls) {
            let operations = schedule.ranks[rank as usize].calls[at].work.operations();
            touched.push(Touched::of(operations));
            by_nccl = by_nccl.max(groups.takes(rank, operations));
        }
        let own = what.takes(calls.len(), groups.kernels());
        let calls = calls.into_iter().map(|at| vec![at]).collect();
        Self { calls, what, touched, own, by_nccl, choice: Choice::Nccl, apart: "" }
    }

    pub(super) fn is_messages(&self) -> bool {
        matches!(self.what, What::Messages(..))
    }

    /// Joins the next calls if that takes no longer in the same kernels; if not, why.
    fn join(&mut self, next: &Self, groups: &Groups<'_>) -> Result<(), &'static str> {
        let (What::Collectives(these), What::Collectives(those)) = (&self.what, &next.what) else {
            return Err("one of them is messages");
        };
        let what = What::Collectives([&these[..], those].concat());
        let own = what.takes(self.calls.len(), groups.kernels());
        let best = |one: &Self| one.own.map_or(one.by_nccl, |own| own.min(one.by_nccl));
        if own.is_none_or(|own| own > best(self) + best(next)) {
            return Err("together they take longer");
        }
        for (calls, more) in self.calls.iter_mut().zip(&next.calls) {
            calls.extend(more);
        }
        for (touched, more) in self.touched.iter_mut().zip(&next.touched) {
            touched.extend(more);
        }
        (self.what, self.own, self.by_nccl) = (what, own, self.by_nccl + next.by_nccl);
        Ok(())
    }
}
