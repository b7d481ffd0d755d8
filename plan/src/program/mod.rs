//! An expanded instance of a plan: everything that every rank issues, in order.

mod buckets;
mod eval;
mod expand;
mod layout;
mod objects;
mod promised;
mod statements;
mod turns;

pub(crate) use buckets::Buckets;
pub(crate) use eval::{Env, NoValue};
pub(crate) use expand::{declared, expand, too_large};
pub(crate) use layout::Layout;
pub(crate) use objects::{NoMemory, NoSpan, Object, Objects};
pub(crate) use promised::Breach;
pub(crate) use statements::Statements;
pub(crate) use turns::Turns;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use crate::ir::{CollectiveKind, Location, Plan};

/// Everything that every rank issues, in order.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) layout: Layout,
    pub(crate) objects: Objects,
    /// The statements' locations, by number.
    pub(crate) places: Vec<Location>,
    /// All units, rank by rank, each rank's in the order of issue.
    pub(crate) units: Vec<Unit>,
    /// The index of each rank's first unit, and one more for the end.
    pub(crate) begins: Vec<u32>,
    /// All operations, unit by unit.
    pub(crate) ops: Vec<Op>,
    pub(crate) streams: usize,
    pub(crate) communicators: usize,
    /// The distinct distances to peers.
    pub(crate) shifts: Vec<Shift>,
    /// The loops' counters in a turn of a compute step with numeric arguments.
    pub(crate) counters: HashMap<u32, Vec<Option<i64>>>,
    /// Whether memory orders a unit only after the units that used it, rather than after everything
    /// on their streams: schedules do so where they may.
    pub(crate) exact: bool,
    /// The objects that a rank uses on several streams, and writes: the others order no streams.
    pub(crate) shared: Vec<bool>,
    /// Of each statement, how often its peer along an open axis was a rank, and how often not.
    pub(crate) off_the_end: Vec<(u64, u64)>,
    /// The claims between statements, in order.
    pub(crate) heres: Vec<Here>,
}

/// A claim between statements, in one turn of the loops around it.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) statement: u32,
    pub(crate) counters: Vec<Option<i64>>,
    /// Of each rank: whether it claims it, and the first unit after it.
    pub(crate) ranks: Vec<(bool, u32)>,
}

/// A distance to a peer as written: one step back is -1, not one less than the extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// The distances along each axis with one, in order.
    pub(crate) hops: Vec<Stride>,
    /// The index of the way back in the list.
    pub(crate) back: u32,
}

/// The distance to a peer along one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stride {
    pub(crate) axis: u32,
    /// In ranks.
    pub(crate) by: i64,
    pub(crate) wraps: bool,
    /// The source text, such as `rank + n / 2`, if the distance depends on the sizes.
    pub(crate) written: Option<String>,
}

/// A compute step, or operations of one communicator that NCCL launches as one.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Unit {
    pub(crate) rank: u32,
    /// The statement that it comes from.
    pub(crate) statement: u32,
    /// Which execution of a statement it belongs to, counted over all ranks alike.
    pub(crate) turn: u32,
    pub(crate) first_op: u32,
    pub(crate) ops: u32,
    pub(crate) stream: u16,
    pub(crate) is_compute: bool,
    /// Streams to wait for, one bit each.
    pub(crate) after: u64,
    /// Whether it is of the same group as the rank's unit before, which has another communicator.
    pub(crate) continues: bool,
}

/// One operation, or one region that a compute step reads or writes.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    /// The unit that it is part of.
    pub(crate) unit: u32,
    pub(crate) statement: u32,
    /// For local work, the index of the region: first its reads, then its writes.
    pub(crate) part: u16,
    /// The communicator, by its index in the plan.
    pub(crate) communicator: u16,
    pub(crate) stream: u16,
    /// The peer, the owner of memory that is got, or a collective's root as a rank of the plan;
    /// otherwise `u32::MAX`.
    pub(crate) peer: u32,
    /// The peer's distance, by its index in [`Program::shifts`], or `u32::MAX` for a number.
    pub(crate) shift: u32,
    /// The signal's number, or `u32::MAX`.
    pub(crate) signal: u32,
    /// How many signals a wait consumes.
    pub(crate) times: u32,
    /// The number that a run passes for a message's length, or `u32::MAX`.
    pub(crate) count: u32,
    /// The elements sent or read; empty for a wait, a receive and a write. What a get reads is in
    /// the peer's memory.
    pub(crate) source: Span,
    /// The elements received or written; a put's are in the peer's memory.
    pub(crate) target: Span,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OpKind {
    Read,
    Write,
    /// A read of another rank's window, by local work.
    Get,
    Send,
    Receive,
    Put,
    Signal,
    Wait,
    Collective(Kind),
}

/// A collective without its root.
pub(crate) type Kind = CollectiveKind<()>;

/// Whether what a collective sends and receives lie as NCCL takes them in place, on the
/// communicator's rank `index`.
pub(crate) fn in_its_place(kind: Kind, send: Span, recv: Span, index: u64) -> bool {
    match kind.spec().wholes() {
        (false, false) => send == recv,
        (false, true) => send.start == recv.start + index * send.len(),
        (true, false) => recv.start == send.start + index * recv.len(),
        (true, true) => false,
    }
}

/// Elements of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    /// The object, in a run of even number; see [`Objects::in_run`] for the others.
    pub(crate) object: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// No rank, no signal, no object.
pub(crate) const NONE: u32 = u32::MAX;

impl Span {
    pub(crate) const NOTHING: Self = Self { object: NONE, start: 0, end: 0 };

    pub(crate) fn len(self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether both have elements of one object in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.object == other.object && self.start.max(other.start) < self.end.min(other.end)
    }
}

impl Op {
    /// The elements of its own rank that it touches, and whether it writes them.
    pub(crate) fn touched(&self) -> impl Iterator<Item = (Span, bool)> {
        let target = if self.kind == OpKind::Put { Span::NOTHING } else { self.target };
        let both = [(self.read(), false), (target, true)].into_iter();
        both.filter(|(span, _)| span.object != NONE && !span.is_empty())
    }
}

impl Op {
    /// The elements of its own rank that it reads.
    pub(crate) fn read(&self) -> Span {
        if self.kind == OpKind::Get { Span::NOTHING } else { self.source }
    }
}

impl OpKind {
    pub(crate) fn is_access(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Get)
    }
}

impl Program {
    pub(crate) fn ranks(&self) -> usize {
        self.layout.size
    }

    pub(crate) fn of_rank(&self, rank: usize) -> Range<usize> {
        self.begins[rank] as usize..self.begins[rank + 1] as usize
    }

    pub(crate) fn ops_of(&self, unit: &Unit) -> &[Op] {
        &self.ops[unit.first_op as usize..][..unit.ops as usize]
    }

    /// Tells each operation its unit, and finds what streams share.
    pub(crate) fn with_units(mut self) -> Self {
        for (at, unit) in (0..).zip(&self.units) {
            let own = &mut self.ops[unit.first_op as usize..][..unit.ops as usize];
            own.iter_mut().for_each(|op| op.unit = at);
        }
        self.shared = self.shared();
        self
    }

    fn shared(&self) -> Vec<bool> {
        let mut shared = vec![false; self.objects.all.len()];
        if self.streams <= 1 {
            return shared;
        }
        // Of each object: its streams as bits, and whether it is written.
        let mut uses = vec![(0_u64, false); shared.len()];
        for unit in &self.units {
            for op in self.ops_of(unit) {
                for (span, writes) in op.touched() {
                    let (streams, written) = &mut uses[span.object as usize];
                    *streams |= 1 << unit.stream;
                    *written |= writes;
                }
            }
        }
        for (at, object) in self.objects.all.iter().enumerate() {
            let (own, other) = (uses[at], uses[object.other_copy as usize]);
            shared[at] = (own.0 | other.0).count_ones() > 1 && (own.1 || other.1);
        }
        shared
    }

    /// The rank that issues an operation.
    pub(crate) fn rank(&self, op: &Op) -> u32 {
        self.units[op.unit as usize].rank
    }

    /// How far an operation's peer is, if it is named by distances.
    pub(crate) fn shift(&self, op: &Op) -> Option<&Shift> {
        self.shifts.get(op.shift as usize)
    }

    /// The way back from an operation's peer.
    pub(crate) fn way_back(&self, op: &Op) -> Option<&Shift> {
        self.shifts.get(self.shift(op)?.back as usize)
    }

    pub(crate) fn place(&self, statement: u32) -> Location {
        self.places[statement as usize]
    }

    /// The location of a unit.
    pub(crate) fn at(&self, unit: usize) -> Location {
        self.place(self.units[unit].statement)
    }

    /// The communicators that a unit uses, one bit each: one, or none.
    pub(crate) fn communicators_of(&self, unit: &Unit) -> u64 {
        if unit.is_compute {
            return 0;
        }
        self.ops_of(unit).first().map_or(0, |op| 1 << op.communicator)
    }
}

/// The most work for the check of one instance: roughly the number of units that are expanded or
/// compared.
pub(crate) const MOST_WORK: u64 = 8_000_000;

/// When to give up, if ever. What is given up has no result, so it is no part of what machines
/// decide alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    pub(crate) const NEVER: Self = Self(None);

    pub(crate) fn new(until: Option<Instant>) -> Self {
        Self(until)
    }

    pub(crate) fn is_past(self) -> bool {
        self.0.is_some_and(|until| Instant::now() >= until)
    }
}

/// Work that is left: about so many units are written out or compared. A count, so that every
/// machine decides alike.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: u64,
    until: Until,
    /// What was taken since the time was last asked.
    unasked: u64,
}

/// How much work is done between two looks at the clock.
const ASKS_EACH: u64 = 1024;

impl Budget {
    pub(crate) const fn new(units: u64) -> Self {
        Self::until(units, Until::NEVER)
    }

    /// One that is also spent when it is too late.
    pub(crate) const fn until(units: u64, until: Until) -> Self {
        Self { left: units, until, unasked: 0 }
    }

    /// Whether there is time for more.
    pub(crate) fn has_time(&mut self) -> bool {
        if self.until.is_past() {
            self.left = 0;
            return false;
        }
        true
    }

    /// Takes that much, if available.
    pub(crate) fn take(&mut self, work: u64) -> bool {
        self.unasked = self.unasked.saturating_add(work).saturating_add(1);
        if self.unasked >= ASKS_EACH {
            self.unasked = 0;
            if !self.has_time() {
                return false;
            }
        }
        match self.left.checked_sub(work) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                self.left = 0;
                false
            }
        }
    }
}

/// The most streams and communicators of a plan: they are bits of a word.
pub(crate) const MOST_STREAMS: usize = 64;

/// The most parameters of a plan that is checked: every instance stores their values.
const MOST_PARAMS: usize = 1024;

/// Whether a plan's streams, communicators and parameters are within these limits.
pub(crate) fn fits(plan: &Plan) -> bool {
    plan.streams.len() <= MOST_STREAMS
        && plan.communicators.len() <= MOST_STREAMS
        && plan.params.len() <= MOST_PARAMS
}

/// The error for a plan that is not.
pub(crate) const DOES_NOT_FIT: &str =
    "the plan has more than 64 streams or communicators, or more than 1,024 parameters";
