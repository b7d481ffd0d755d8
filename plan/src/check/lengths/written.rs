//! What is read was written before: proved where one write holds all of it.
//!
//! That some write comes first was seen at the sizes that were looked at. For the others, one is looked for
//! that is there whenever the read is: an earlier statement, on every rank, under no condition and in no loop
//! that the read is not in, of the same copy and the same buffer of an array.

use std::collections::HashMap;

use super::Lengths;
use crate::arith::{Facts, View};
use crate::ir::{BufferId, Location, Peer, Region, Role, Step, StepKind};
use crate::verdict::Check;

/// Writes of one buffer that are asked whether they hold what is read, at most.
const MOST: usize = 64;

/// A region that a statement reads or writes.
struct Access<'a> {
    number: u32,
    region: &'a Region,
    at: Location,
    /// The loops and conditions around the statement, outermost first.
    around: Vec<&'a Step>,
    /// Whether every rank's memory is written that runs the statement.
    everywhere: bool,
}

impl Lengths<'_> {
    /// Proves that what is read was written.
    pub(super) fn initialised(&mut self) {
        let mut writes: HashMap<BufferId, Vec<Access<'_>>> = HashMap::new();
        let mut reads = Vec::new();
        accesses(&self.plan.steps, &mut 0, &mut Vec::new(), &mut |access, is_write| {
            if is_write {
                writes.entry(access.region.buffer).or_default().push(access);
            } else {
                reads.push(access);
            }
        });
        let fixed: HashMap<BufferId, bool> = writes
            .iter()
            .map(|(buffer, own)| {
                (*buffer, own.iter().all(|write| self.is_whole(write.region, write.number)))
            })
            .collect();
        for read in reads {
            let region = read.region;
            let buffer = &self.plan.buffers[region.buffer.index()];
            let own = writes.get(&region.buffer).map_or(&[][..], Vec::as_slice);
            if matches!(buffer.role, Role::In | Role::InOut) && !region.next {
                continue;
            }
            let all_fixed = fixed.get(&region.buffer).is_none_or(|fixed| *fixed);
            if (all_fixed && self.is_whole(region, read.number))
                || own.iter().take(MOST).any(|write| self.holds(write, &read))
            {
                continue;
            }
            let title = format!(
                "whether all of what is read of `{}` was written cannot be decided for every size",
                buffer.name
            );
            let help = "write it as a whole before, or let the caller fill it";
            self.undecided(Check::Initialised, read.at, &title, help);
        }
    }

    /// Whether a region is the same at every size, of an array of which all buffers were looked at.
    fn is_whole(&self, region: &Region, statement: u32) -> bool {
        let buffer = &self.plan.buffers[region.buffer.index()];
        let all = region.index.is_some()
            || buffer.array.as_ref().is_none_or(|array| self.is_looked_at(&array.count));
        let loops = self.loops.get(&statement).into_iter().flatten();
        let mut bounds = loops.flat_map(|around| [&around.from, &around.to]);
        all && self.is_fixed(region, statement) && bounds.all(|bound| self.is_looked_at(bound))
    }

    fn holds(&self, write: &Access<'_>, read: &Access<'_>) -> bool {
        let is_around = |step: &&Step| read.around.iter().any(|other| std::ptr::eq(*other, *step));
        if write.number >= read.number
            || !write.everywhere
            || write.region.next != read.region.next
            || !write.around.iter().all(is_around)
            || !self.may_prove()
        {
            return false;
        }
        // All of the writer's loops are the reader's: both are seen from one iteration.
        let mut facts = Facts::within(self.plan, &self.fuel);
        let rank = facts.rank();
        let view = self.iterations(&mut facts, read.number, rank);
        let same = match (&write.region.index, &read.region.index) {
            (None, None) => true,
            (Some(a), Some(b)) => facts.equal(&facts.poly(a, &view), &facts.poly(b, &view)),
            // All of an array's buffers.
            (None, Some(_)) => true,
            (Some(_), None) => false,
        };
        same && (write.region.range.is_none() || self.contains(&facts, write, read, &view))
    }

    fn contains(&self, facts: &Facts, write: &Access<'_>, read: &Access<'_>, view: &View) -> bool {
        let spans = (self.span(facts, read.region, view), self.span(facts, write.region, view));
        matches!(spans, (Some(read), Some(write)) if facts.contained(&read, &write))
    }
}

/// All regions of a plan that are read or written on the rank that names them, with the statements' numbers.
fn accesses<'a>(
    steps: &'a [Step],
    number: &mut u32,
    around: &mut Vec<&'a Step>,
    each: &mut dyn FnMut(Access<'a>, bool),
) {
    for step in steps {
        let own = *number;
        *number += 1;
        let path = around.clone();
        let access = |region: &'a Region, everywhere: bool| Access {
            number: own,
            region,
            at: step.at,
            around: path.clone(),
            everywhere,
        };
        match &step.kind {
            StepKind::Loop(this) => {
                around.push(step);
                accesses(&this.body, number, around, each);
                around.pop();
            }
            StepKind::When(this) => {
                around.push(step);
                accesses(&this.body, number, around, each);
                around.pop();
            }
            StepKind::Group(body) | StepKind::Sequence(body) => {
                accesses(body, number, around, each);
            }
            StepKind::Compute(this) => {
                this.reads.iter().for_each(|region| each(access(region, true), false));
                this.writes.iter().for_each(|region| each(access(region, true), true));
            }
            StepKind::Collective(this) => {
                each(access(&this.send, true), false);
                each(access(&this.recv, this.kind.root().is_none()), true);
            }
            // What comes from another rank is computed there: it counts where the ranks do not differ.
            StepKind::Transfer(this) => {
                each(access(&this.from, true), false);
                each(access(&this.to, wraps(&this.peer) && !by_rank(&this.to)), true);
            }
            StepKind::Send(this) => each(access(&this.from, true), false),
            StepKind::Receive(this) => each(access(&this.to, wraps(&this.peer)), true),
            StepKind::Put(this) => {
                each(access(&this.from, true), false);
                each(access(&this.to, wraps(&this.peer) && !by_rank(&this.to)), true);
            }
            StepKind::Signal(_) | StepKind::Wait(_) => {}
        }
    }
}

fn wraps(peer: &Peer) -> bool {
    matches!(peer, Peer::Shift(hops) if hops.iter().all(|hop| hop.wrap))
}

fn by_rank(region: &Region) -> bool {
    let range = region.range.iter().flat_map(|(start, end)| [start, end]);
    range.chain(&region.index).any(|expr| expr.mentions_rank())
}
