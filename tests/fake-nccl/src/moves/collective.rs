//! Collectives and transfers, as messages.

use std::borrow::Cow;
use std::{ptr, slice};

use nccl_sys::ncclDataType_t;

use super::header::{Body, Header};
use super::member::Member;
use super::reduce::{Operation, given, reduce, width};

/// The kind of collective.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Gather,
    Scatter,
}

/// A call.
#[derive(Clone, Copy)]
pub(crate) struct Collective {
    pub(crate) kind: Kind,
    pub(crate) send: usize,
    pub(crate) recv: usize,
    pub(crate) count: usize,
    pub(crate) datatype: ncclDataType_t,
    pub(crate) operation: Operation,
    pub(crate) root: usize,
}

/// One half of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) peer: usize,
    /// Its number between the two ranks.
    pub(crate) number: u64,
}

/// NCCL sends up to this many bytes before the other side comes.
const EAGER: usize = 64 << 10;

/// # Safety
///
/// There are this many bytes, and nothing writes to them while this is used.
pub(super) unsafe fn view<'a>(address: usize, bytes: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), bytes) }
}

/// # Safety
///
/// There is room for this many bytes, and nothing else uses them meanwhile.
unsafe fn write(address: usize, bytes: &[u8]) {
    let to = ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: the caller's promise; an operation in place overwrites its own input.
    unsafe { ptr::copy(bytes.as_ptr(), to, bytes.len()) };
}

/// A running collective. Every step returns `None` once the communicator is over.
struct Running<'m> {
    member: &'m Member,
    call: Collective,
    what: String,
}

/// Runs a collective with this number.
pub(super) fn run(member: &Member, number: u64, call: Collective) {
    let what = format!("collective{number}");
    // If it ends early there is nothing to write, as the communicator is over.
    let _ = Running { member, call, what }.run();
}

impl Running<'_> {
    fn run(&self) -> Option<()> {
        let (rank, size) = (self.member.room.rank, self.member.room.size);
        let block = self.call.count * width(self.call.datatype);
        let (is_root, root) = (rank == self.call.root, self.call.root);
        let own = match self.call.kind {
            Kind::ReduceScatter | Kind::AllToAll => self.own(block * size),
            Kind::Scatter if is_root => self.own(block * size),
            Kind::Broadcast | Kind::Scatter if !is_root => &[],
            _ => self.own(block),
        };
        match self.call.kind {
            Kind::Reduce | Kind::Gather if !is_root => {
                return self.send(&[root], &self.given(own));
            }
            Kind::Broadcast | Kind::Scatter if !is_root => self.write(0, &self.receive(root)?),
            Kind::AllReduce => {
                let given = self.given(own);
                self.post(&self.member.room.others(), &given);
                self.reduce(&given)?;
            }
            Kind::Reduce => self.reduce(&self.given(own))?,
            Kind::ReduceScatter => {
                let given = self.given(own);
                self.reduce(self.deal(&given, block))?;
            }
            Kind::Broadcast => {
                self.write(0, own);
                self.send(&self.member.room.others(), own)?;
            }
            Kind::AllGather => {
                self.post(&self.member.room.others(), own);
                self.gather(own)?;
            }
            Kind::Gather => self.gather(own)?,
            Kind::AllToAll => {
                self.deal(own, block);
                self.gather(&own[rank * block..(rank + 1) * block])?;
            }
            Kind::Scatter => {
                self.write(0, self.deal(own, block));
                self.settle(&self.member.room.others(), block)?;
            }
        }
        Some(())
    }

    fn header(&self) -> Header {
        let Collective { kind, datatype, operation, root, count, .. } = self.call;
        let op = operation.name();
        let (kind, datatype, root) = (kind as i32, datatype.0, root as i32);
        Header { kind, datatype, op, root, count: count as u64 }
    }

    /// What this rank sends.
    fn own(&self, bytes: usize) -> &[u8] {
        // SAFETY: the caller keeps NCCL's contract: the send buffer holds the call's elements until
        // its stream has passed.
        unsafe { view(self.call.send, bytes) }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: likewise for the receive buffer; overwritten data is not read any more.
        unsafe { write(self.call.recv + offset, bytes) };
    }

    fn given<'b>(&self, own: &'b [u8]) -> Cow<'b, [u8]> {
        given(self.call.datatype, self.call.operation, own)
    }

    /// Writes the reduction of all ranks' contributions.
    fn reduce(&self, own: &[u8]) -> Option<()> {
        let theirs = self.receive_all()?;
        let mut all: Vec<&[u8]> = theirs.iter().map(|theirs| &**theirs).collect();
        all.insert(self.member.room.rank, own);
        self.write(0, &reduce(self.call.datatype, self.call.operation, &all));
        Some(())
    }

    /// Writes all ranks' data, one after the other.
    fn gather(&self, own: &[u8]) -> Option<()> {
        let theirs = self.receive_all()?;
        // First, as in place it may lie where the others' data goes.
        self.write(self.member.room.rank * own.len(), own);
        for (rank, theirs) in self.member.room.others().into_iter().zip(theirs) {
            self.write(rank * own.len(), &theirs);
        }
        Some(())
    }

    fn post(&self, to: &[usize], bytes: &[u8]) {
        self.member.room.post(&self.what, to, &[&self.header().to_bytes(), bytes]);
    }

    /// Posts; long data is waited for until every receiver has taken it.
    fn send(&self, to: &[usize], bytes: &[u8]) -> Option<()> {
        self.post(to, bytes);
        self.settle(to, bytes.len())
    }

    fn settle(&self, to: &[usize], bytes: usize) -> Option<()> {
        if bytes <= EAGER {
            return Some(());
        }
        let is_taken = |to: &usize| self.member.room.is_taken(&self.what, *to);
        self.member.wait(|| to.iter().all(is_taken).then_some(()))
    }

    /// Posts to each rank its own block; returns this rank's.
    fn deal<'b>(&self, all: &'b [u8], block: usize) -> &'b [u8] {
        let of = |rank: usize| &all[rank * block..(rank + 1) * block];
        for rank in self.member.room.others() {
            self.post(&[rank], of(rank));
        }
        of(self.member.room.rank)
    }

    /// Receives a rank's data. A rank that sent something else counts as having sent nothing, and
    /// is waited for.
    fn receive(&self, from: usize) -> Option<Body> {
        self.member.wait(|| self.header().strip(self.member.room.take(&self.what, from)?))
    }

    /// Receives the data of every other rank.
    fn receive_all(&self) -> Option<Vec<Body>> {
        self.member.room.others().into_iter().map(|from| self.receive(from)).collect()
    }
}

impl Transfer {
    fn what(self) -> String {
        format!("transfer{}", self.number)
    }

    fn header(self) -> Header {
        Header { kind: -1, datatype: 0, op: 0, root: 0, count: self.bytes as u64 }
    }

    pub(super) fn post(self, member: &Member) {
        // SAFETY: the caller keeps NCCL's contract: the send buffer holds the call's elements until
        // its stream has passed.
        let own = unsafe { view(self.address, self.bytes) };
        member.room.post(&self.what(), &[self.peer], &[&self.header().to_bytes(), own]);
    }

    /// Waits until long data was taken.
    pub(super) fn settle(self, member: &Member) {
        if self.bytes > EAGER {
            let is_taken = || member.room.is_taken(&self.what(), self.peer);
            let _ = member.wait(|| is_taken().then_some(()));
        }
    }

    pub(super) fn receive(self, member: &Member) {
        let take = || self.header().strip(member.room.take(&self.what(), self.peer)?);
        if let Some(found) = member.wait(take) {
            // SAFETY: as in `post`, for the receive buffer.
            unsafe { write(self.address, &found) };
        }
    }
}
