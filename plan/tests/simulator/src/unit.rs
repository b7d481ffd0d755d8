//! A plan as each rank runs it: lists of units, with numbers for names.

use typed_nccl_plan::ir::{CollectiveKind, Reduction};

use crate::far::Far;

/// Elements of one allocation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) buffer: usize,
    /// The place in the array; 0 for a single buffer.
    pub(crate) at: usize,
    /// Whether it is the copy that the next run calls the current one.
    pub(crate) next: bool,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// How long the plan says it is: more than it can be if it lies outside its buffer.
    pub(crate) said: i64,
}

/// What one operation does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Compute {
        name: u64,
        reads: Vec<Span>,
        writes: Vec<Span>,
        /// What the plan says of its results.
        known: Vec<Known>,
    },
    /// Local work of the library: what it reads of this rank, or of another one, combined.
    Assign {
        to: Span,
        by: Reduction,
        of: Vec<(Option<usize>, Span)>,
    },
    Collective {
        kind: CollectiveKind,
        /// The rank of the plan that is the root.
        root: Option<usize>,
        send: Option<Span>,
        recv: Option<Span>,
        /// Elements of one rank's part, as this rank says.
        count: i64,
    },
    Send {
        from: Span,
        peer: usize,
        /// How far the peer is along each axis, as it is written.
        far: Option<Far>,
    },
    Receive {
        to: Span,
        peer: usize,
        far: Option<Far>,
    },
    Put {
        from: Span,
        to: Span,
        peer: usize,
        signal: Option<usize>,
    },
    Signal {
        signal: usize,
        peer: usize,
    },
    /// Which signals, of whom, how many times.
    Wait(Vec<(usize, usize, i64)>),
}

/// What a compute step leaves: what it reads, combined element by element.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) to: Vec<Span>,
    pub(crate) by: Reduction,
    pub(crate) from: Vec<Vec<Span>>,
}

/// An operation with its communicator; a compute step has none.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) act: Act,
    pub(crate) among: Option<usize>,
    pub(crate) stream: usize,
    pub(crate) after: Vec<usize>,
    /// What statement it comes from, and its place in the unit.
    pub(crate) key: Key,
}

/// Where in the plan: places and counters, from the outside in. Sorts in the order of issue.
pub(crate) type Key = Vec<i64>;

/// What a rank issues at one statement.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) key: Key,
    pub(crate) stream: usize,
    pub(crate) after: Vec<usize>,
    pub(crate) ops: Vec<Op>,
}

impl Span {
    pub(crate) fn meets(&self, other: &Self) -> bool {
        (self.buffer, self.at, self.next) == (other.buffer, other.at, other.next)
            && self.from.max(other.from) < self.to.min(other.to)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.from >= self.to
    }
}

impl Op {
    /// What it reads and what it writes of its own rank's memory, without the windows of puts.
    pub(crate) fn touches(&self) -> (Vec<Span>, Vec<Span>) {
        match &self.act {
            Act::Compute { reads, writes, .. } => (reads.clone(), writes.clone()),
            Act::Assign { to, of, .. } => {
                let own = of.iter().filter(|(rank, _)| rank.is_none()).map(|(_, span)| *span);
                (own.collect(), vec![*to])
            }
            Act::Collective { send, recv, .. } => {
                (send.iter().copied().collect(), recv.iter().copied().collect())
            }
            Act::Send { from, .. } | Act::Put { from, .. } => (vec![*from], Vec::new()),
            Act::Receive { to, .. } => (Vec::new(), vec![*to]),
            Act::Signal { .. } | Act::Wait(_) => (Vec::new(), Vec::new()),
        }
    }

    /// All that it reads, of this rank or of others.
    pub(crate) fn loads(&self) -> Vec<(Option<usize>, Span)> {
        match &self.act {
            Act::Assign { of, .. } => of.clone(),
            _ => self.touches().0.into_iter().map(|span| (None, span)).collect(),
        }
    }

    /// What it reads of other ranks.
    pub(crate) fn gets(&self) -> impl Iterator<Item = (usize, Span)> {
        let all = self.loads().into_iter();
        all.filter_map(|(rank, span)| Some((rank?, span)))
    }

    /// The signal that it raises, and where.
    pub(crate) fn raises(&self) -> Option<(usize, usize)> {
        match self.act {
            Act::Put { signal, peer, .. } => signal.map(|signal| (signal, peer)),
            Act::Signal { signal, peer } => Some((signal, peer)),
            _ => None,
        }
    }
}

impl Unit {
    /// The communicators that it uses, each once.
    pub(crate) fn communicators(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.ops.iter().filter_map(|op| op.among).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(crate) fn waits(&self) -> bool {
        self.ops.iter().any(|op| matches!(op.act, Act::Wait(_)))
    }
}
