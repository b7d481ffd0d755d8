//! One collective of a case: which one, how, and the place of its operands on each rank.

use std::ops::Range;

use super::case::Case;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Collective {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Gather,
    Scatter,
}

impl Collective {
    pub(crate) const ALL: [Self; 8] = [
        Self::AllReduce,
        Self::Broadcast,
        Self::Reduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Gather,
        Self::Scatter,
    ];

    pub(crate) fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    /// How many blocks a rank sends and receives.
    fn blocks(self, is_root: bool, n: usize) -> (Option<usize>, Option<usize>) {
        let on_root = |blocks| is_root.then_some(blocks);
        match self {
            Self::AllReduce => (Some(1), Some(1)),
            Self::Broadcast => (on_root(1), Some(1)),
            Self::Reduce => (Some(1), on_root(1)),
            Self::AllGather => (Some(1), Some(n)),
            Self::ReduceScatter => (Some(n), Some(1)),
            Self::AllToAll => (Some(n), Some(n)),
            Self::Gather => (Some(1), on_root(n)),
            Self::Scatter => (on_root(n), Some(1)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Sum,
    Prod,
    Min,
    Max,
    /// `Sum` for types without an average.
    Avg,
    PreMulSum,
}

impl Op {
    pub(crate) const ALL: [Self; 6] =
        [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Avg, Self::PreMulSum];
}

/// The place of the operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// In two buffers.
    Apart,
    /// In two parts of one buffer.
    Parts,
    /// In place; `Apart` for all_to_all, which has no such form.
    InPlace,
    /// The result is a new buffer; `Apart` for all but reduce and gather.
    Fresh,
}

impl Form {
    pub(crate) const ALL: [Self; 4] = [Self::Apart, Self::Parts, Self::InPlace, Self::Fresh];
}

/// How many elements a block has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// This many, or as many as fit.
    AtMost(usize),
    /// As many as fit, minus this many: `Less(0)` means whole buffers.
    Less(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) what: Collective,
    pub(crate) op: Op,
    pub(crate) form: Form,
    pub(crate) root: usize,
    pub(crate) count: Count,
    /// The buffer of the send side, and of both in one buffer.
    pub(crate) send: usize,
    /// The buffer of the receive side, as an offset from the other.
    pub(crate) recv: usize,
    /// Moves the operands within their buffers, to a different place on each rank.
    pub(crate) shift: usize,
    /// Bit r: rank r uses its second stream.
    pub(crate) side: u8,
}

/// Part of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub(crate) buffer: usize,
    pub(crate) range: Range<usize>,
}

/// One rank's operands.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The send operand, if this rank sends.
    pub(crate) send: Option<Region>,
    /// The receive operand, if this rank receives into an existing buffer.
    pub(crate) recv: Option<Region>,
    /// The operand of the in-place form.
    pub(crate) held: Option<Region>,
    /// Whether the root gets the result in a new buffer.
    pub(crate) gives: bool,
    /// Whether this rank gets it.
    pub(crate) given: bool,
}

impl Call {
    pub(crate) fn form(&self) -> Form {
        let allocates = matches!(self.what, Collective::Reduce | Collective::Gather);
        match self.form {
            Form::InPlace if self.what == Collective::AllToAll => Form::Apart,
            Form::Fresh if !allocates => Form::Apart,
            form => form,
        }
    }

    pub(crate) fn root(&self, case: &Case) -> usize {
        self.root % case.ranks
    }

    pub(crate) fn is_side(&self, rank: usize) -> bool {
        self.side >> rank & 1 == 1
    }

    fn count(&self, case: &Case) -> usize {
        let (send, recv) = self.what.blocks(true, case.ranks);
        let (send, recv) = (send.unwrap_or(0), recv.unwrap_or(0));
        let blocks = if self.form() == Form::Parts { send + recv } else { send.max(recv) };
        let most = case.ranks * case.block / blocks;
        match self.count {
            Count::AtMost(count) => count.min(most),
            Count::Less(less) => most.saturating_sub(less),
        }
    }

    pub(crate) fn layout(&self, case: &Case, rank: usize) -> Layout {
        let count = self.count(case);
        let blocks = self.what.blocks(rank == self.root(case), case.ranks);
        let (send, recv) = (blocks.0.map(|b| b * count), blocks.1.map(|b| b * count));
        let (here, there) = (self.send % case.buffers, self.recv_buffer(case));
        // A region of `len` elements, at a different place on each rank.
        let place = |buffer: usize, len: usize, salt: usize| {
            let room = case.len(buffer) - len;
            let start = (self.shift + salt * rank) % (room + 1);
            Region { buffer, range: start..start + len }
        };
        let within = |outer: &Region, start: usize, len: usize| {
            let start = outer.range.start + start;
            Region { buffer: outer.buffer, range: start..start + len }
        };
        let (mut held, gives) = (None, self.form() == Form::Fresh);
        let given = gives && recv.is_some();
        let (send, recv) = match self.form() {
            Form::Apart => {
                (send.map(|len| place(here, len, 3)), recv.map(|len| place(there, len, 5)))
            }
            Form::Fresh => (send.map(|len| place(here, len, 3)), None),
            Form::Parts => {
                let (s, r) = (send.unwrap_or(0), recv.unwrap_or(0));
                let both = place(here, s + r, 3);
                // The send part comes first in every other case.
                let (at_send, at_recv) = if self.shift.is_multiple_of(2) { (0, s) } else { (r, 0) };
                (
                    send.map(|len| within(&both, at_send, len)),
                    recv.map(|len| within(&both, at_recv, len)),
                )
            }
            Form::InPlace => {
                let len = send.max(recv).unwrap_or(0);
                let all = place(here, len, 3);
                // The shorter side is this rank's own block of the longer one.
                let own = |len_here: usize| if len_here == len { 0 } else { rank * count };
                held = Some(all.clone());
                (
                    send.map(|len| within(&all, own(len), len)),
                    recv.map(|len| within(&all, own(len), len)),
                )
            }
        };
        Layout { send, recv, held, gives, given }
    }

    fn recv_buffer(&self, case: &Case) -> usize {
        (self.send + 1 + self.recv % (case.buffers - 1)) % case.buffers
    }
}
