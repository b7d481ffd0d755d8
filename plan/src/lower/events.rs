//! Chooses the waits between streams, with as few events as possible.

use std::collections::HashMap;

use super::greedy::runs;
use crate::check::{Instance, LocalReason, local_reasons};
use crate::ir::{Launch, Plan};
use crate::program::Program;
use crate::verdict::Rejected;

/// The waits of one rank's units.
pub(super) struct Waits {
    /// For each unit, by index on its rank, its waits.
    pub(super) of: Vec<Vec<Wait>>,
}

/// A wait for a unit's end.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// The unit, by index on its rank.
    pub(super) unit: u32,
    /// Whether it is a unit of the previous run.
    pub(super) carried: bool,
    pub(super) why: LocalReason,
}

/// The position that each stream is known to have reached: its index in this run, from 1, or its
/// index in the previous run minus that run's length, so that the end of that run is 0.
type Known = Vec<i64>;

const NOTHING: i64 = i64::MIN / 2;

/// One rank's units, in the order of issue.
struct Steps {
    /// For each unit, its stream and its index there, from 1.
    at: Vec<(usize, i64)>,
    /// For each stream, its number of units.
    lens: Vec<i64>,
    /// For each unit, the units that must have ended, and whether they belong to the previous run.
    wanted: Vec<Vec<(usize, bool)>>,
}

impl Waits {
    /// # Errors
    /// It takes too long.
    pub(super) fn new(instance: &Instance<'_>, rank: usize) -> Result<Self, Rejected> {
        let mut why = HashMap::new();
        let steps = Steps::new(instance.plan, instance.program, rank, &mut why);
        instance.in_time()?;
        // What a run knows, the next one knows of the run before. What a run knows of itself does
        // not depend on the run before, so once is enough.
        let streams = steps.lens.len();
        let nothing = vec![vec![NOTHING; streams]; streams];
        let (_, clocks, known) = steps.walk(&nothing, None);
        instance.in_time()?;
        let earlier = |all: &[Known]| -> Vec<Known> {
            all.iter().map(|known| steps.earlier(known)).collect()
        };
        let (found, ..) = steps.walk(&earlier(&known), Some(&earlier(&clocks)));
        let of = found.into_iter().enumerate().map(|(unit, waits)| {
            let wait = |(other, carried): (usize, bool)| {
                let stream = steps.at[other].0 as u16;
                let why = why.get(&(unit, other, carried)).copied();
                let why = why.unwrap_or(LocalReason::Stream(stream));
                Wait { unit: other as u32, carried, why }
            };
            waits.into_iter().map(wait).collect()
        });
        Ok(Self { of: of.collect() })
    }
}

impl Steps {
    fn new(
        plan: &Plan,
        program: &Program,
        rank: usize,
        why: &mut HashMap<(usize, usize, bool), LocalReason>,
    ) -> Self {
        let own = program.of_rank(rank);
        let (begin, units) = (own.start, program.units.len());
        let mut lens = vec![0_i64; program.streams.max(1)];
        let at = program.units[own.clone()].iter().map(|unit| {
            let stream = usize::from(unit.stream);
            lens[stream] += 1;
            (stream, lens[stream])
        });
        let at: Vec<(usize, i64)> = at.collect();
        let mut wanted = vec![Vec::new(); own.len()];
        local_reasons(program, rank, runs(plan), |unit, earlier, reason| {
            let (run, other_run) = (unit as usize / units, earlier as usize / units);
            let (unit, other) = (unit as usize % units - begin, earlier as usize % units - begin);
            // A stream is in order by itself, and NCCL orders a communicator.
            if at[unit].0 == at[other].0 || matches!(reason, LocalReason::Communicator(_)) {
                return;
            }
            let carried = match run - other_run {
                0 => false,
                // Graph launches follow one another as a whole.
                _ if plan.launch == Launch::Captured => return,
                // This run has recorded the event again already. Its unit comes after the previous
                // run's.
                _ => other >= unit,
            };
            why.entry((unit, other, carried)).or_insert(reason);
            if !wanted[unit].contains(&(other, carried)) {
                wanted[unit].push((other, carried));
            }
        });
        for wanted in &mut wanted {
            // The latest first: its own waits need not be repeated.
            wanted.sort_by_key(|&(other, carried)| (carried, std::cmp::Reverse(other)));
        }
        Self { at, lens, wanted }
    }

    /// A run's knowledge, in the numbering of the next one.
    fn earlier(&self, known: &[i64]) -> Known {
        known.iter().zip(&self.lens).map(|(known, len)| (known - len).max(NOTHING)).collect()
    }

    /// Walks through the units once. Returns the waits of each beyond the knowledge of its stream,
    /// the knowledge of each at its end, and that of each stream at the end. `before` is the units'
    /// knowledge in the previous run.
    fn walk(
        &self,
        begin: &[Known],
        before: Option<&[Known]>,
    ) -> (Vec<Vec<(usize, bool)>>, Vec<Known>, Vec<Known>) {
        let mut known: Vec<Known> = begin.to_vec();
        let mut clocks: Vec<Known> = Vec::with_capacity(self.at.len());
        let mut found = Vec::with_capacity(self.at.len());
        for (&(own, place), wanted) in self.at.iter().zip(&self.wanted) {
            let mut waits = Vec::new();
            for &(other, carried) in wanted {
                let (stream, place) = self.at[other];
                let place = if carried { place - self.lens[stream] } else { place };
                if known[own][stream] >= place {
                    continue;
                }
                waits.push((other, carried));
                let theirs = match (carried, before) {
                    (false, _) => Some(&clocks[other]),
                    (true, before) => before.map(|before| &before[other]),
                };
                for (own, theirs) in known[own].iter_mut().zip(theirs.into_iter().flatten()) {
                    *own = (*own).max(*theirs);
                }
                known[own][stream] = known[own][stream].max(place);
            }
            known[own][own] = place;
            clocks.push(known[own].clone());
            found.push(waits);
        }
        (found, clocks, known)
    }
}
