//! What is read was written before: proved where one write holds all of it, or several that follow one another.
//!
//! That some write comes first was seen at the sizes that were looked at. For the others, one is looked for
//! that is there whenever the read is: an earlier statement, on every rank, under no condition and in no loop
//! that the read is not in, of the same copy and the same buffer of an array.

use std::collections::HashMap;

use super::Lengths;
use crate::arith::{Facts, Poly, Span, View};
use crate::ir::{BufferId, CollectiveKind, Expr, Location, Peer, Region, Role, Step, StepKind};
use crate::verdict::Check;

/// Writes of one buffer that are asked whether they hold what is read, at most.
const MOST: usize = 64;

/// Writes that are asked whether they hold together what is read, at most.
const MOST_TOGETHER: usize = 16;

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
        let apart = tells_ranks_apart(&self.plan.steps);
        let mut walk = Walk { number: 0, around: Vec::new(), tells_ranks_apart: apart };
        accesses(&self.plan.steps, &mut walk, &mut |access, is_write| {
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
                || self.hold_together(own, &read)
                || self.is_carried(own, &read)
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

    /// Whether a write is there whenever the read is.
    fn is_before(&self, write: &Access<'_>, read: &Access<'_>) -> bool {
        let is_around = |step: &&Step| read.around.iter().any(|other| std::ptr::eq(*other, *step));
        write.number < read.number
            && write.everywhere
            && write.region.next == read.region.next
            && write.around.iter().all(is_around)
            && self.may_prove()
    }

    fn holds(&self, write: &Access<'_>, read: &Access<'_>) -> bool {
        if !self.is_before(write, read) {
            return false;
        }
        let (facts, view) = self.seen_from(read);
        self.holds_from(&facts, (write, &view), (read, &view))
    }

    /// Whether a write holds what is read, each seen from its own iteration.
    fn holds_from(
        &self,
        facts: &Facts,
        (write, its): (&Access<'_>, &View),
        (read, view): (&Access<'_>, &View),
    ) -> bool {
        if !same_buffer(facts, (write, its), (read, view)) {
            return false;
        }
        let spans = self.span(facts, read.region, view).zip(self.span(facts, write.region, its));
        write.region.range.is_none()
            || spans.is_some_and(|(read, write)| facts.contained(&read, &write))
    }

    /// Whether an iteration reads what the one before it wrote, and the first one what was written before the
    /// loop: two buffers that are used in turns.
    fn is_carried(&self, own: &[Access<'_>], read: &Access<'_>) -> bool {
        let Some((innermost, outer)) = read.around.split_last() else { return false };
        let StepKind::Loop(around) = &innermost.kind else { return false };
        if around.reverse || !self.may_prove() {
            return false;
        }
        let (facts, view) = self.seen_from(read);
        let at = |counter: Poly| view.with(around.counter, counter);
        let now = facts.poly(&Expr::Loop(around.counter), &view);
        let (before, first) = (at(&now - &Poly::from(1)), at(facts.poly(&around.from, &view)));
        let same = |steps: &[&Step], others: &[&Step]| {
            steps.len() == others.len()
                && steps.iter().zip(others).all(|(step, other)| std::ptr::eq(*step, *other))
        };
        let is_kept =
            |write: &&Access<'_>| write.everywhere && write.region.next == read.region.next;
        let mut within = own.iter().take(MOST).filter(is_kept);
        let mut ahead = own.iter().take(MOST).filter(is_kept);
        within.any(|write| {
            same(&write.around, &read.around)
                && self.holds_from(&facts, (write, &before), (read, &view))
        }) && ahead.any(|write| {
            write.number < read.number
                && write.around.iter().all(|step| outer.iter().any(|one| std::ptr::eq(*one, *step)))
                && self.holds_from(&facts, (write, &first), (read, &first))
        })
    }

    /// All of the writer's loops are the reader's: both are seen from one iteration.
    fn seen_from(&self, read: &Access<'_>) -> (Facts, View) {
        let mut facts = Facts::within(self.plan, &self.fuel);
        let rank = facts.rank();
        let view = self.iterations(&mut facts, read.number, rank);
        (facts, view)
    }

    /// Whether writes that follow one another hold what is read: each begins where those before it end, or
    /// earlier.
    fn hold_together(&self, own: &[Access<'_>], read: &Access<'_>) -> bool {
        let before = own.iter().take(MOST).filter(|write| self.is_before(write, read));
        let before: Vec<&Access<'_>> = before.collect();
        if !(2..=MOST_TOGETHER).contains(&before.len()) {
            return false;
        }
        let (facts, view) = self.seen_from(read);
        let spans =
            before.into_iter().filter(|write| same_buffer(&facts, (write, &view), (read, &view)));
        let mut left: Vec<Span> =
            spans.filter_map(|write| self.span(&facts, write.region, &view)).collect();
        let Some(wanted) = self.span(&facts, read.region, &view) else { return false };
        let mut reached = wanted.start;
        while !facts.at_most(&wanted.end, &reached) {
            let next = left.iter().position(|span| {
                facts.at_most(&span.start, &reached) && facts.at_most(&reached, &span.end)
            });
            let Some(next) = next else { return false };
            reached = left.swap_remove(next).end;
        }
        true
    }
}

/// Whether both are of one buffer of an array.
fn same_buffer(
    facts: &Facts,
    (write, its): (&Access<'_>, &View),
    (read, view): (&Access<'_>, &View),
) -> bool {
    match (&write.region.index, &read.region.index) {
        (None, None) => true,
        (Some(a), Some(b)) => facts.equal(&facts.poly(a, its), &facts.poly(b, view)),
        // All of an array's buffers.
        (None, Some(_)) => true,
        (Some(_), None) => false,
    }
}

/// Where a plan is read.
struct Walk<'a> {
    number: u32,
    around: Vec<&'a Step>,
    tells_ranks_apart: bool,
}

/// All regions of a plan that are read or written on the rank that names them, with the statements' numbers.
fn accesses<'a>(steps: &'a [Step], walk: &mut Walk<'a>, each: &mut dyn FnMut(Access<'a>, bool)) {
    for step in steps {
        let own = walk.number;
        walk.number += 1;
        let path = walk.around.clone();
        let access = |region: &'a Region, everywhere: bool| Access {
            number: own,
            region,
            at: step.at,
            around: path.clone(),
            everywhere,
        };
        match &step.kind {
            StepKind::Loop(this) => {
                walk.around.push(step);
                accesses(&this.body, walk, each);
                walk.around.pop();
            }
            StepKind::When(this) => {
                walk.around.push(step);
                accesses(&this.body, walk, each);
                walk.around.pop();
            }
            StepKind::Group(body) | StepKind::Sequence(body) => {
                accesses(body, walk, each);
            }
            StepKind::Compute(this) => {
                this.reads.iter().for_each(|region| each(access(region, true), false));
                this.writes.iter().for_each(|region| each(access(region, true), true));
            }
            StepKind::Collective(this) => {
                each(access(&this.send, true), false);
                each(access(&this.recv, writes_on_all_ranks(&this.kind)), true);
            }
            // What comes from another rank is computed there: it counts where the ranks do not differ.
            StepKind::Transfer(this) => {
                each(access(&this.from, true), false);
                let everywhere =
                    wraps(&this.peer) && !by_rank(&this.to) && !is_guarded(&walk.around);
                each(access(&this.to, everywhere), true);
            }
            StepKind::Send(this) => each(access(&this.from, true), false),
            StepKind::Receive(this) => each(access(&this.to, wraps(&this.peer)), true),
            // A put has arrived when its signal is consumed: where not all ranks run the same, not all may
            // have waited for it when they come here.
            StepKind::Put(this) => {
                each(access(&this.from, true), false);
                let everywhere = wraps(&this.peer) && !by_rank(&this.to) && !walk.tells_ranks_apart;
                each(access(&this.to, everywhere), true);
            }
            StepKind::Signal(_) | StepKind::Wait(_) => {}
        }
    }
}

fn writes_on_all_ranks(kind: &CollectiveKind) -> bool {
    !matches!(kind, CollectiveKind::Reduce { .. } | CollectiveKind::Gather { .. })
}

/// Whether only some ranks come here: what these send, others receive.
fn is_guarded(around: &[&Step]) -> bool {
    around.iter().any(|step| match &step.kind {
        StepKind::When(this) => this.condition.mentions_rank(),
        StepKind::Loop(this) => this.from.mentions_rank() || this.to.mentions_rank(),
        _ => false,
    })
}

/// Whether not all ranks run the same statements.
fn tells_ranks_apart(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::When(this) => this.condition.mentions_rank() || tells_ranks_apart(&this.body),
        StepKind::Loop(this) => tells_ranks_apart(&this.body),
        StepKind::Group(body) | StepKind::Sequence(body) => tells_ranks_apart(body),
        _ => false,
    })
}

fn wraps(peer: &Peer) -> bool {
    matches!(peer, Peer::Shift(hops) if hops.iter().all(|hop| hop.wrap))
}

fn by_rank(region: &Region) -> bool {
    let range = region.range.iter().flat_map(|(start, end)| [start, end]);
    range.chain(&region.index).any(|expr| expr.mentions_rank())
}
