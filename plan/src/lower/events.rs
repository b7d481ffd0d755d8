//! Which stream waits for which other, with as few events as that takes.

use std::collections::HashMap;

use super::greedy::runs;
use crate::check::{LocalReason, bits, local_reasons};
use crate::ir::{Launch, Plan};
use crate::program::Program;

/// The waits of one rank's units.
pub(super) struct Waits {
    /// Of each unit, counted on its rank, what it waits for.
    pub(super) of: Vec<Vec<Wait>>,
}

/// A wait for a unit's end.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// The unit, counted on its rank.
    pub(super) unit: u32,
    /// Whether it is the run before's.
    pub(super) carried: bool,
    pub(super) why: LocalReason,
}

/// How far a stream has surely come, as another one knows it: its place in this run; 0 when it has done all
/// of the run before, and less when not even that is known.
type Known = Vec<i64>;

const NOTHING: i64 = -1;

impl Waits {
    pub(super) fn new(plan: &Plan, program: &Program, rank: usize) -> Self {
        let own = program.of_rank(rank);
        let (begin, count, units) = (own.start, own.len(), program.units.len());
        let stream = |unit: usize| usize::from(program.units[begin + unit].stream);
        // Which streams each unit must have caught up with, in any run.
        let mut wanted: Vec<u64> = vec![0; count];
        let mut why = HashMap::new();
        local_reasons(program, rank, runs(plan), |unit, earlier, reason| {
            let (unit, earlier) = (unit as usize % units - begin, earlier as usize % units - begin);
            // One stream is in order by itself, one communicator by NCCL.
            if stream(unit) != stream(earlier) && !by_nccl(reason) {
                wanted[unit] |= 1 << stream(earlier);
                why.entry((unit, stream(earlier))).or_insert(reason);
            }
        });
        let streams = program.streams.max(1);
        let mut ends: Vec<Option<usize>> = vec![None; streams];
        for unit in 0..count {
            ends[stream(unit)] = Some(unit);
        }
        let carries = plan.replayed && plan.launch == Launch::Eager;
        let steps: Vec<(usize, u64)> =
            (0..count).map(|unit| (stream(unit), wanted[unit])).collect();
        let walk = |begin: &[Known]| walk(&steps, &ends, carries, begin);
        // What a run knows at its end, the next one knows when it begins. Knowledge of this run does not
        // depend on that of the run before, so once is enough.
        let nothing = vec![vec![NOTHING; streams]; streams];
        let (_, known, places) = walk(&nothing);
        let begin: Vec<Known> = known.iter().map(|known| shifted(known, &places)).collect();
        let (found, ..) = walk(&begin);
        let of = found.into_iter().enumerate().map(|(unit, waits)| {
            let wait = |(other, carried): (usize, bool)| {
                let why = why.get(&(unit, stream(other))).copied();
                let why = why.unwrap_or_else(|| LocalReason::Stream(stream(other) as u16));
                Wait { unit: other as u32, carried, why }
            };
            waits.into_iter().map(wait).collect()
        });
        Self { of: of.collect() }
    }
}

/// Whether NCCL keeps this order itself.
fn by_nccl(reason: LocalReason) -> bool {
    matches!(reason, LocalReason::Communicator(_))
}

/// What was known at the end of a run, as the next one counts.
fn shifted(known: &[i64], places: &[i64]) -> Known {
    known
        .iter()
        .zip(places)
        .map(|(&known, &len)| if len > 0 && known >= len { 0 } else { NOTHING })
        .collect()
}

/// Runs the units once: what each waits for that its stream does not know, what each stream knows at the
/// end, and how many units each has.
fn walk(
    steps: &[(usize, u64)],
    ends: &[Option<usize>],
    carries: bool,
    begin: &[Known],
) -> (Vec<Vec<(usize, bool)>>, Vec<Known>, Vec<i64>) {
    let mut known: Vec<Known> = begin.to_vec();
    let mut places = vec![0_i64; ends.len()];
    let mut last: Vec<Option<usize>> = vec![None; ends.len()];
    // What each stream knew after its unit of that number.
    let mut clocks: Vec<Known> = Vec::with_capacity(steps.len());
    let mut found = Vec::with_capacity(steps.len());
    for (unit, &(own, wanted)) in steps.iter().enumerate() {
        let mut waits = Vec::new();
        // The latest first: what it has waited for itself need not be waited for again.
        let mut others: Vec<usize> = bits(wanted).collect();
        others.sort_by_key(|&other| std::cmp::Reverse(last[other]));
        for other in others {
            if known[own][other] >= places[other] {
                continue;
            }
            match (last[other], ends[other]) {
                (Some(earlier), _) => {
                    waits.push((earlier, false));
                    let theirs = &clocks[earlier];
                    for (own, theirs) in known[own].iter_mut().zip(theirs) {
                        *own = (*own).max(*theirs);
                    }
                }
                (None, Some(end)) if carries => {
                    waits.push((end, true));
                    let theirs = &begin[other];
                    for (own, theirs) in known[own].iter_mut().zip(theirs) {
                        *own = (*own).max(*theirs);
                    }
                    known[own][other] = 0;
                }
                (None, _) => {}
            }
        }
        places[own] += 1;
        known[own][own] = places[own];
        last[own] = Some(unit);
        clocks.push(known[own].clone());
        found.push(waits);
    }
    (found, known, places)
}
