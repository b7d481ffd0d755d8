//! An instance of a plan, written out: what every rank issues, in order.

mod eval;
mod expand;
mod layout;
mod objects;
mod statements;

pub(crate) use eval::{Env, NoValue};
pub(crate) use expand::{declared, expand, too_large};
pub(crate) use layout::Layout;
pub(crate) use objects::{NoMemory, NoSpan, Object, Objects};
pub(crate) use statements::Statements;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use crate::ir::{CollectiveKind, Location, Plan};

/// What every rank issues, in order.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) layout: Layout,
    pub(crate) objects: Objects,
    /// The statements' places, by number.
    pub(crate) places: Vec<Location>,
    /// All units, rank by rank, each rank's in the order of issue.
    pub(crate) units: Vec<Unit>,
    /// Where each rank's units are; one more than there are ranks.
    pub(crate) begins: Vec<u32>,
    /// All operations, unit by unit.
    pub(crate) ops: Vec<Op>,
    pub(crate) streams: usize,
    pub(crate) communicators: usize,
    /// The distances to peers that occur.
    pub(crate) shifts: Vec<Shift>,
    /// The loops' counters in a turn of a compute step that gets numbers.
    pub(crate) counters: HashMap<u32, Vec<Option<i64>>>,
    /// Whether memory makes a unit wait for the very units that used it, not for all that was issued on their
    /// streams: what a schedule does, where it may.
    pub(crate) exact: bool,
}

/// A distance to a peer, as it is written: a step back of one is -1, not one less than the extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Along each axis where there is any, in their order.
    pub(crate) hops: Vec<Stride>,
    /// The way back, by its place in the list.
    pub(crate) back: u32,
}

/// How far a peer is along one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stride {
    pub(crate) axis: u32,
    /// How many ranks.
    pub(crate) by: i64,
    pub(crate) wraps: bool,
    /// How it is written, `rank + n / 2`, where how many that is depends on the sizes.
    pub(crate) written: Option<String>,
}

/// A compute step, or operations that NCCL launches as one.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Unit {
    pub(crate) rank: u32,
    /// The statement that it comes from.
    pub(crate) statement: u32,
    /// Which running of a statement it belongs to, counted through all ranks alike.
    pub(crate) turn: u32,
    pub(crate) first_op: u32,
    pub(crate) ops: u32,
    pub(crate) stream: u16,
    pub(crate) is_compute: bool,
    /// Streams to wait for, one bit each.
    pub(crate) after: u64,
}

/// One operation, or one region that a compute step reads or writes.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    pub(crate) statement: u32,
    /// Of a compute step, which of its regions: its reads are counted first, then its writes.
    pub(crate) part: u16,
    /// Which communicator, by its place in the plan.
    pub(crate) communicator: u16,
    pub(crate) stream: u16,
    /// The other rank; a collective's root, as a rank of the plan, or `u32::MAX`.
    pub(crate) peer: u32,
    /// How the peer is named, by its place in [`Program::shifts`], or `u32::MAX` where it is a number.
    pub(crate) shift: u32,
    /// A signal's number, or `u32::MAX`.
    pub(crate) signal: u32,
    /// How many signals a wait consumes.
    pub(crate) times: u32,
    /// What is sent or read; for a wait, a receive and a write: nothing.
    pub(crate) source: Span,
    /// What is received or written; a put's lies in the peer's memory.
    pub(crate) target: Span,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OpKind {
    Read,
    Write,
    Send,
    Receive,
    Put,
    Signal,
    Wait,
    Collective(Kind),
}

/// A collective without its root.
pub(crate) type Kind = CollectiveKind<()>;

/// Whether what a collective sends and receives lie as NCCL takes them in place, on the communicator's rank
/// of that number.
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
    /// Which object, in a run of even number; [`Objects::in_run`] has the others.
    pub(crate) object: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// No other rank, no signal, no object.
pub(crate) const NONE: u32 = u32::MAX;

impl Span {
    pub(crate) const NOTHING: Self = Self { object: NONE, start: 0, end: 0 };

    pub(crate) fn len(self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether both lie in one object and have elements in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.object == other.object && self.start.max(other.start) < self.end.min(other.end)
    }
}

impl OpKind {
    pub(crate) fn is_access(self) -> bool {
        matches!(self, Self::Read | Self::Write)
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

    pub(crate) fn place(&self, statement: u32) -> Location {
        self.places[statement as usize]
    }

    /// Where a unit is written.
    pub(crate) fn at(&self, unit: usize) -> Location {
        self.place(self.units[unit].statement)
    }

    /// The communicators that a unit uses, one bit each.
    pub(crate) fn communicators_of(&self, unit: &Unit) -> u64 {
        if unit.is_compute {
            return 0;
        }
        self.ops_of(unit).iter().fold(0, |set, op| set | 1 << op.communicator)
    }
}

/// How much work the check of one instance takes at most: about so many units are written out or compared.
pub(crate) const MOST_WORK: u64 = 8_000_000;

/// When to give up, if ever. What is given up has no result, so it is no part of what machines decide alike.
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

/// Work that is left: about so many units are written out or compared. A count, so that every machine decides
/// alike.
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

    /// Takes that much, if it is there.
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

/// How many streams and communicators a plan may have: they are counted in the bits of a word.
pub(crate) const MOST_STREAMS: usize = 64;

/// How many parameters a plan may have that is checked: their values are written into every instance.
const MOST_PARAMS: usize = 1024;

/// Whether a plan's streams, communicators and parameters are few enough for that.
pub(crate) fn fits(plan: &Plan) -> bool {
    plan.streams.len() <= MOST_STREAMS
        && plan.communicators.len() <= MOST_STREAMS
        && plan.params.len() <= MOST_PARAMS
}

/// What a plan that does not fit is told.
pub(crate) const DOES_NOT_FIT: &str =
    "the plan has more than 64 streams or communicators, or more than 1,024 parameters";
