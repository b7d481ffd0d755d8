//! Operations in any form.
//!
//! An operation is the same thing all its life, but names memory, operators and configurations
//! differently: a backend borrows them ([`backend::Op`](super::Op)), a graph keeps them, a plan
//! knows their places in a table, the host engine's queues hold them. Each form is an alias of
//! what is here.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::error::{Call, CollectiveName, Operation};
use crate::{DType, Rank, ReductionName};

/// One operation that has passed validation. `P` names elements, `O` operators that a program made,
/// `T` where puts go, `C` configurations of single calls.
#[derive(Clone, Copy)]
pub enum Op<P, O, T, C> {
    /// A collective.
    Collective(Collective<P, O, C>),
    /// This rank's half of a transfer.
    Transfer(Transfer<P>),
    /// A write into a peer's window, then a signal.
    Put(Put<P, T>),
    /// A signal alone.
    Signal(Signal),
    /// A wait for signals; consumes them.
    Wait(Wait),
}

/// How elements are combined.
#[derive(Clone, Copy)]
pub enum Reduction<O> {
    /// One of NCCL's own.
    BuiltIn(ReductionName),
    /// An operator that this communicator made.
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

/// A collective that has passed validation. How many elements each side has, and on which ranks, is
/// said by the collective's [`spec`](CollectiveName::spec).
///
/// In place, `send` and `recv` overlap exactly where NCCL asks for it: the same span for
/// all_reduce, broadcast and reduce; this rank's block of the longer one for the others; never for
/// all_to_all. Otherwise they are disjoint.
#[derive(Clone, Copy)]
pub struct Collective<P, O, C> {
    /// Which one; `call.operation` says so too.
    pub name: CollectiveName,
    /// What, how much, and where in the source.
    pub call: Call,
    /// How elements are combined, for the reducing ones.
    pub reduction: Option<Reduction<O>>,
    /// What is read.
    pub send: Option<P>,
    /// What is written.
    pub recv: Option<P>,
    /// How this call is configured, if not as the communicator is: checked, the same on all ranks.
    pub config: Option<C>,
}

/// Which half of a message a rank has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// The span is read.
    SendTo,
    /// The span is written.
    RecvFrom,
}

impl Half {
    /// What its call is named.
    pub const fn operation(self) -> Operation {
        match self {
            Self::SendTo => Operation::SendTo,
            Self::RecvFrom => Operation::RecvFrom,
        }
    }

    /// What the peer is told if it is refused.
    pub const fn refusal(self, peer: Rank) -> Refusal {
        match self {
            Self::SendTo => Refusal::SendTo(peer),
            Self::RecvFrom => Refusal::RecvFrom(peer),
        }
    }
}

/// A send or a receive. The k-th send of a pair meets the k-th receive; both have one count and one
/// data type.
#[derive(Clone, Copy)]
pub struct Transfer<P> {
    /// Which of the two; `call.operation` says so too.
    pub half: Half,
    /// What, how much, and where in the source.
    pub call: Call,
    /// The other rank.
    pub peer: Rank,
    /// What is read or written.
    pub span: P,
}

/// A put of `span`, then a signal in `slot`.
#[derive(Clone, Copy)]
pub struct Put<P, T> {
    /// What, how much, and where in the source.
    pub call: Call,
    /// Whose memory is written.
    pub peer: Rank,
    /// What is read: part of a symmetric window of this communicator.
    pub span: P,
    /// Where it goes; the end is inside the peer's part.
    pub to: T,
    /// Which signal.
    pub slot: Slot,
}

/// A place in a peer's part of a window.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The window, by the id that `Rma::register` was given.
    pub window: WindowId,
    /// In bytes.
    pub offset: usize,
}

/// A signal to `peer`.
#[derive(Clone, Copy)]
pub struct Signal {
    /// Where in the source.
    pub call: Call,
    /// Whom.
    pub peer: Rank,
    /// Which signal.
    pub slot: Slot,
}

/// A wait for `count` signals from `peer`.
#[derive(Clone, Copy)]
pub struct Wait {
    /// Where in the source.
    pub call: Call,
    /// From whom.
    pub peer: Rank,
    /// Which signal.
    pub slot: Slot,
    /// How many, at least 1.
    pub count: u32,
}

/// A window of a communicator: the same number on all ranks.
pub type WindowId = u64;

/// One of the signals that a communicator was configured with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Slot {
    /// The context (`ctx`): order is kept within one.
    pub context: u32,
    /// The signal's index (`sigIdx`).
    pub index: u32,
    /// Whether it is a graph's: NCCL keeps those apart, so that a wait in a graph takes no signal
    /// from outside of one.
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

    /// The other rank, where there is one.
    pub fn peer(&self) -> Option<Rank> {
        self.call().peer
    }

    /// What is read here, and what is written here.
    pub(crate) fn sides(&self) -> (Option<&P>, Option<&P>) {
        match self {
            Self::Collective(collective) => (collective.send.as_ref(), collective.recv.as_ref()),
            Self::Transfer(Transfer { half: Half::SendTo, span, .. })
            | Self::Put(Put { span, .. }) => (Some(span), None),
            Self::Transfer(Transfer { half: Half::RecvFrom, span, .. }) => (None, Some(span)),
            Self::Signal(_) | Self::Wait(_) => (None, None),
        }
    }

    /// Its signal, where it raises one or waits for one.
    pub(crate) fn slot_mut(&mut self) -> Option<&mut Slot> {
        match self {
            Self::Put(Put { slot, .. })
            | Self::Signal(Signal { slot, .. })
            | Self::Wait(Wait { slot, .. }) => Some(slot),
            Self::Collective(_) | Self::Transfer(_) => None,
        }
    }

    /// What the others are told if it is refused.
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

    /// The same operation in another form. A part's data type is told beside it.
    #[inline]
    pub(crate) fn map<'s, P2, O2, T2, C2>(
        &'s self,
        part: impl Fn(&'s P, DType) -> P2,
        operator: impl Fn(&'s O) -> O2,
        target: impl Fn(&'s T) -> T2,
        config: impl Fn(&'s C) -> C2,
    ) -> Op<P2, O2, T2, C2> {
        match self {
            Self::Collective(Collective { name, call, reduction, send, recv, config: own }) => {
                let part = |of: &'s P| part(of, call.dtype);
                Op::Collective(Collective {
                    name: *name,
                    call: *call,
                    reduction: reduction.as_ref().map(|reduction| match reduction {
                        Reduction::BuiltIn(name) => Reduction::BuiltIn(*name),
                        Reduction::Made(own) => Reduction::Made(operator(own)),
                    }),
                    send: send.as_ref().map(part),
                    recv: recv.as_ref().map(part),
                    config: own.as_ref().map(config),
                })
            }
            Self::Transfer(Transfer { half, call, peer, span }) => {
                let span = part(span, call.dtype);
                Op::Transfer(Transfer { half: *half, call: *call, peer: *peer, span })
            }
            Self::Put(Put { call, peer, span, to, slot }) => {
                let (span, to) = (part(span, call.dtype), target(to));
                Op::Put(Put { call: *call, peer: *peer, span, to, slot: *slot })
            }
            Self::Signal(signal) => Op::Signal(*signal),
            Self::Wait(wait) => Op::Wait(*wait),
        }
    }
}
