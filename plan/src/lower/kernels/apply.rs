//! Puts kernels into a schedule.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::stretch::{Choice, Stretch, What, kernels};
use super::{Among, told};
use crate::ir::Location;
use crate::lower::turns::ON_WINDOWS;
use crate::lower::{Call, Event, Operation, RankSchedule, Reason, Schedule, Work};

impl Schedule {
    /// Replaces calls by the chosen kernels.
    pub(super) fn apply(mut self, all: &[(Among, Stretch)]) -> Self {
        for (among, one) in all {
            // Rows of a mesh do the same, as do the turns of a loop.
            let why = told::why(&self, among.ranks[0], one);
            if !self.why_kernels.contains(&why) {
                self.why_kernels.push(why);
            }
        }
        self.reasons = reasons(&self, all);
        let mut of: Vec<Vec<(usize, &Stretch)>> = vec![Vec::new(); self.ranks.len()];
        for (among, one) in all.iter().filter(|(_, one)| one.choice == Choice::Kernel) {
            for (member, &rank) in among.ranks.iter().enumerate() {
                of[rank as usize].push((member, one));
            }
        }
        for (rank, chosen) in self.ranks.iter_mut().zip(of) {
            rank.apply(&chosen);
        }
        self
    }
}

impl RankSchedule {
    fn apply(&mut self, chosen: &[(usize, &Stretch)]) {
        // Calls that are replaced, and events that another one replaces.
        let (mut gone, mut same) = (HashSet::<usize>::new(), HashMap::new());
        let mut made = BTreeMap::new();
        for (member, stretch) in chosen {
            let calls: Vec<&Call> =
                stretch.calls[*member].iter().map(|&at| &self.calls[at]).collect();
            let mut recorded = calls.iter().filter_map(|call| call.records);
            if let Some(event) = recorded.next() {
                same.extend(recorded.map(|other| (other, event)));
            }
            made.insert(stretch.calls[*member][0], stretch.kernels(*member, &calls));
            gone.extend(&stretch.calls[*member]);
        }
        for (at, call) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            match made.remove(&at) {
                Some(kernels) => self.calls.extend(kernels),
                None if gone.contains(&at) => {}
                None => self.calls.push(call),
            }
        }
        for call in &mut self.calls {
            for waits in [&mut call.waits, &mut call.carried] {
                waits.iter_mut().for_each(|event| *event = *same.get(event).unwrap_or(event));
                waits.sort_unstable();
                waits.dedup();
            }
        }
    }
}

impl Stretch {
    /// The kernels that replace a rank's calls: the first waits for whatever the first call waited
    /// for, and others wait for the last.
    fn kernels(&self, member: usize, calls: &[&Call]) -> Vec<Call> {
        let operations = calls.iter().flat_map(|call| call.work.operations());
        let operations: Vec<&Operation> = operations.collect();
        let works: Vec<Work> = match &self.what {
            What::Messages(_, legs) => {
                let operations = operations.into_iter().cloned().collect();
                vec![Work::Kernel { operations, legs: legs[member].clone() }]
            }
            What::Collectives(all) => {
                let of = kernels(all, self.calls.len()).into_iter();
                let work = |of: Vec<usize>| {
                    let operations = of.into_iter().map(|at| operations[at].clone()).collect();
                    Work::Kernel { operations, legs: Vec::new() }
                };
                of.map(work).collect()
            }
        };
        let mut from: Vec<Location> = Vec::new();
        for at in calls.iter().flat_map(|call| &call.from) {
            if !from.contains(at) {
                from.push(*at);
            }
        }
        let records: Option<Event> = calls.iter().find_map(|call| call.records);
        let last = works.len() - 1;
        let of = |(at, work)| Call {
            stream: calls[0].stream,
            waits: if at == 0 { calls[0].waits.clone() } else { Vec::new() },
            carried: if at == 0 { calls[0].carried.clone() } else { Vec::new() },
            records: records.filter(|_| at == last),
            work,
            from: from.clone(),
        };
        works.into_iter().enumerate().map(of).collect()
    }
}

/// Reports statements that NCCL does not fuse: they share a kernel now, or do not for another
/// reason.
fn reasons(schedule: &Schedule, all: &[(Among, Stretch)]) -> Vec<Reason> {
    let mut now: HashMap<(Option<Location>, Option<Location>), Vec<Option<&str>>> = HashMap::new();
    let mut tell = |rank: u32, (first, second): (usize, usize), apart: Option<&'static str>| {
        let of = &schedule.ranks[rank as usize].calls;
        let places = (of[first].from.last().copied(), of[second].from.first().copied());
        let known = now.entry(places).or_default();
        if !known.contains(&apart) {
            known.push(apart);
        }
    };
    for (at, (among, one)) in all.iter().enumerate() {
        let (rank, calls) = (among.ranks[0], &one.calls[0]);
        let before = all[..at].last().filter(|(other, _)| other == among);
        if let Some(&before) = before.and_then(|(_, one)| one.calls[0].last()) {
            tell(rank, (before, calls[0]), Some(one.apart));
        }
        for pair in calls.windows(2).filter(|_| one.choice == Choice::Kernel) {
            tell(rank, (pair[0], pair[1]), None);
        }
    }
    let of = |reason: &Reason| -> Vec<Reason> {
        let places = (Some(reason.first), Some(reason.second));
        match now.get(&places) {
            Some(now) if reason.why.ends_with(ON_WINDOWS) => {
                let tell = |apart: &Option<&str>| {
                    let (joined, why) = (apart.is_none(), told::joined(*apart, &reason.why));
                    Reason { joined, why, ..reason.clone() }
                };
                now.iter().map(tell).collect()
            }
            _ => vec![reason.clone()],
        }
    };
    schedule.reasons.iter().flat_map(of).collect()
}
