//! The steps of programs.

/// Buffers of a rank, which precede its windows among its stores.
pub(crate) const BUFFERS: usize = 4;
/// Windows of each communicator.
pub(crate) const WINDOWS: usize = 3;
pub(crate) const COMMS: usize = 2;
pub(crate) const STORES: usize = BUFFERS + COMMS * WINDOWS;
/// Streams of a rank; number 0 stands for the communicator's own.
pub(crate) const STREAMS: usize = 4;
/// How many signals each communicator has.
pub(crate) const CONTEXTS: u32 = 2;
pub(crate) const SIGNALS: u32 = 3;

/// The size of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) ranks: usize,
    /// The most elements in a collective's block.
    pub(crate) block: usize,
}

impl Shape {
    /// How many elements each store has.
    pub(crate) fn size(self) -> usize {
        self.ranks * self.block
    }
}

/// A place in a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) store: usize,
    pub(crate) start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sum,
    Max,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast(usize),
    Reduce(usize),
    Gather(usize),
    Scatter(usize),
}

/// A collective from one store to another, of blocks of `len`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collective {
    pub(crate) kind: Kind,
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) len: usize,
}

/// A collective in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InPlace {
    pub(crate) kind: Kind,
    pub(crate) at: At,
    pub(crate) len: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) sender: usize,
    pub(crate) receiver: usize,
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) len: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) writer: usize,
    pub(crate) target: usize,
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) len: usize,
    /// Context and signal.
    pub(crate) slot: (u32, u32),
}

/// Operations of a round, which are independent of each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Collective(Collective),
    InPlace(InPlace),
    Transfer(Transfer),
    Put(Put),
    /// A signal without a put.
    Signal {
        from: usize,
        to: usize,
        slot: (u32, u32),
    },
}

/// How puts are kept from memory that a peer still uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fence {
    /// A host wait and a barrier.
    Barrier,
    /// A signal from every rank to every rank.
    Signals((u32, u32)),
    /// A collective in stream order.
    Collective,
}

/// How a rank waits for the signals of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// At the end of the round's group.
    InGroup,
    Together,
    OneByOne,
}

/// Several operations at once: as a group, or one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) comm: usize,
    pub(crate) stream: usize,
    pub(crate) parts: Vec<Part>,
    pub(crate) grouped: bool,
    /// Before puts.
    pub(crate) fence: Option<Fence>,
    pub(crate) waits: Waits,
    /// The stream of the waits.
    pub(crate) waiting: usize,
    /// A rank with one more, bad operation, so that its group is refused.
    pub(crate) refused_by: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Collective {
        comm: usize,
        stream: usize,
        what: Collective,
    },
    InPlace {
        comm: usize,
        stream: usize,
        what: InPlace,
    },
    Round(Round),
    /// By sender and receiver.
    AllToAllV {
        comm: usize,
        from: usize,
        to: usize,
        counts: Vec<Vec<usize>>,
    },
    AllGatherV {
        comm: usize,
        from: usize,
        to: usize,
        blocks: Vec<usize>,
    },
    ReduceScatterV {
        comm: usize,
        blocks: Vec<usize>,
    },
    /// The second store gets a part of the first.
    Launch {
        stream: usize,
        from: usize,
        to: usize,
    },
    /// Two views of one store.
    LaunchSplit {
        stream: usize,
        store: usize,
        mid: usize,
    },
    /// The store moves to another thread and is used there, on a stream that is dropped at once.
    Away {
        store: usize,
    },
    Write {
        store: usize,
        value: u32,
    },
    Read {
        store: usize,
    },
    /// A new buffer replaces one that may be in use.
    Renew {
        buffer: usize,
    },
    NewStream {
        stream: usize,
    },
    Wait {
        stream: usize,
        on: usize,
    },
    Sync {
        stream: usize,
    },
    /// A call that is bad on every rank.
    Refused {
        comm: usize,
        stream: usize,
    },
}
