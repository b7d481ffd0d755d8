//! Operations, generic over how they name their operands.
//!
//! An operation keeps its structure but names memory, operators and configurations differently in
//! different places: a backend borrows them ([`backend::Op`](super::Op)), a graph keeps them alive,
//! a plan knows their indices in a table, and the host engine's queues own them. Each of these is
//! an alias of the types here.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::error::{Call, CollectiveName, Operation};
use crate::{Rank, ReductionName};

/// A validated operation. `P` names elements, `O` user-defined operators, `T` targets of puts, and
/// `C` configurations of single calls.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Op<P, O, T, C> {
    /// A collective.
    Collective(Collective<P, O, C>),
    /// This rank's half of a transfer.
    Transfer(Transfer<P>),
    /// A write into a peer's window, then a signal.
    Put(Put<P, T>),
    /// A signal alone.
    Signal(Signal),
    /// A wait that consumes signals.
    Wait(Wait),
}

/// A reduction.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Reduction<O> {
    /// One of NCCL's own.
    BuiltIn(ReductionName),
    /// An operator that a program created with this communicator.
    Made(O),
}

impl<O> Reduction<O> {
    /// Its name in reports.
    #[inline]
    pub fn name(&self) -> ReductionName {
        match self {
            Self::BuiltIn(name) => *name,
            Self::Made(_) => ReductionName::ScaledAdd,
        }
    }
}

/// A validated collective. Its [`spec`](CollectiveName::spec) defines how many elements each side
/// has, and on which ranks.
///
/// In place, `send` and `recv` overlap exactly as NCCL requires: the same span for all_reduce,
/// broadcast and reduce; this rank's block of the longer one for the others; never for all_to_all.
/// Otherwise they are disjoint.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Collective<P, O, C> {
    /// The collective, as in `call.operation`.
    pub name: CollectiveName,
    /// The call's parameters and source location.
    pub call: Call,
    /// The reduction, for collectives that have one.
    pub reduction: Option<Reduction<O>>,
    /// The elements that are read.
    pub send: Option<P>,
    /// The elements that are written.
    pub recv: Option<P>,
    /// The validated configuration of this call, the same on all ranks; `None` for the
    /// communicator's.
    pub config: Option<C>,
}

/// A rank's half of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Half {
    /// The span is read.
    SendTo,
    /// The span is written.
    RecvFrom,
}

impl Half {
    /// The operation of its call.
    pub const fn operation(self) -> Operation {
        match self {
            Self::SendTo => Operation::SendTo,
            Self::RecvFrom => Operation::RecvFrom,
        }
    }

    /// The refusal of this half.
    pub const fn refusal(self, peer: Rank) -> Refusal {
        match self {
            Self::SendTo => Refusal::SendTo(peer),
            Self::RecvFrom => Refusal::RecvFrom(peer),
        }
    }
}

/// A send or a receive. The k-th send of a pair of ranks matches the k-th receive, with the same
/// count and data type.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Transfer<P> {
    /// The half, as in `call.operation`.
    pub half: Half,
    /// The call's parameters and source location.
    pub call: Call,
    /// The other rank.
    pub peer: Rank,
    /// The elements that are read or written.
    pub span: P,
}

/// A put of `span`, then a signal in `slot`.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Put<P, T> {
    /// The call's parameters and source location.
    pub call: Call,
    /// The rank whose memory is written.
    pub peer: Rank,
    /// The elements that are read: part of a symmetric window of this communicator.
    pub span: P,
    /// The destination, whose end is within the peer's memory.
    pub to: T,
    /// The signal to raise.
    pub slot: Slot,
}

/// A place in a peer's memory of a window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Target {
    /// The id that the window was registered with.
    pub window: WindowId,
    /// In bytes.
    pub offset: usize,
}

/// A signal to `peer`.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Signal {
    /// The call's source location.
    pub call: Call,
    /// The receiving rank.
    pub peer: Rank,
    /// The signal to raise.
    pub slot: Slot,
}

/// A wait for `count` signals from `peer`.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Wait {
    /// The call's source location.
    pub call: Call,
    /// The sending rank.
    pub peer: Rank,
    /// The signal to wait for.
    pub slot: Slot,
    /// The number of signals, at least 1.
    pub count: u32,
}

/// The id of a window of a communicator, the same on all ranks.
pub type WindowId = u64;

/// One of a communicator's configured signals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Slot {
    /// The context (`ctx`), within which operations are ordered.
    pub context: u32,
    /// The signal's index (`sigIdx`).
    pub index: u32,
    /// Whether it belongs to graphs. NCCL keeps those apart, so that a wait in a graph does not
    /// consume a signal raised outside of one.
    pub captured: bool,
}

impl Slot {
    /// A signal outside of graphs.
    pub const fn at(context: u32, index: u32) -> Self {
        Self { context, index, captured: false }
    }
}

impl<P, O, T, C> Op<P, O, T, C> {
    /// The call that it came from.
    pub fn call(&self) -> Call {
        match self {
            Self::Collective(collective) => collective.call,
            Self::Transfer(transfer) => transfer.call,
            Self::Put(put) => put.call,
            Self::Signal(signal) => signal.call,
            Self::Wait(wait) => wait.call,
        }
    }

    /// Whether it is a put, a signal or a wait.
    pub fn is_one_sided(&self) -> bool {
        matches!(self, Self::Put(_) | Self::Signal(_) | Self::Wait(_))
    }

    /// The other rank, if there is one.
    pub fn peer(&self) -> Option<Rank> {
        self.call().peer
    }

    /// The elements that this rank reads, and those that it writes.
    pub(crate) fn sides(&self) -> (Option<&P>, Option<&P>) {
        match self {
            Self::Collective(collective) => (collective.send.as_ref(), collective.recv.as_ref()),
            Self::Transfer(Transfer { half: Half::SendTo, span, .. })
            | Self::Put(Put { span, .. }) => (Some(span), None),
            Self::Transfer(Transfer { half: Half::RecvFrom, span, .. }) => (None, Some(span)),
            Self::Signal(_) | Self::Wait(_) => (None, None),
        }
    }

    /// The signal that it raises or waits for, if any.
    pub(crate) fn slot_mut(&mut self) -> Option<&mut Slot> {
        match self {
            Self::Put(Put { slot, .. })
            | Self::Signal(Signal { slot, .. })
            | Self::Wait(Wait { slot, .. }) => Some(slot),
            Self::Collective(_) | Self::Transfer(_) => None,
        }
    }

    /// The refusal of this operation.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::Collective(_) => Refusal::Collective,
            Self::Transfer(transfer) => transfer.half.refusal(transfer.peer),
            Self::Put(Put { peer, slot, .. }) | Self::Signal(Signal { peer, slot, .. }) => {
                Refusal::Signal(*peer, *slot)
            }
            Self::Wait(wait) => Refusal::Wait(wait.peer, wait.slot, wait.count),
        }
    }

    /// Converts it to another form. `part` also gets whether this rank writes the elements.
    #[inline]
    pub(crate) fn map<'s, P2, O2, T2, C2>(
        &'s self,
        mut part: impl FnMut(&'s P, bool) -> P2,
        operator: impl Fn(&'s O) -> O2,
        target: impl Fn(&'s T) -> T2,
        config: impl Fn(&'s C) -> C2,
    ) -> Op<P2, O2, T2, C2> {
        match self {
            Self::Collective(Collective { name, call, reduction, send, recv, config: own }) => {
                Op::Collective(Collective {
                    name: *name,
                    call: *call,
                    reduction: reduction.as_ref().map(|reduction| match reduction {
                        Reduction::BuiltIn(name) => Reduction::BuiltIn(*name),
                        Reduction::Made(own) => Reduction::Made(operator(own)),
                    }),
                    send: send.as_ref().map(|send| part(send, false)),
                    recv: recv.as_ref().map(|recv| part(recv, true)),
                    config: own.as_ref().map(config),
                })
            }
            Self::Transfer(Transfer { half, call, peer, span }) => {
                let span = part(span, *half == Half::RecvFrom);
                Op::Transfer(Transfer { half: *half, call: *call, peer: *peer, span })
            }
            Self::Put(Put { call, peer, span, to, slot }) => {
                let (span, to) = (part(span, false), target(to));
                Op::Put(Put { call: *call, peer: *peer, span, to, slot: *slot })
            }
            Self::Signal(signal) => Op::Signal(*signal),
            Self::Wait(wait) => Op::Wait(*wait),
        }
    }
}
