//! Collectives and transfers, as messages.

use std::borrow::Cow;
use std::{ptr, slice};

use nccl_sys::ncclDataType_t;

use super::header::{Body, Header};
use super::member::Member;
use super::reduce::{Operation, given, reduce, width};

/// Which collective.
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
    /// Which one between the two.
    pub(crate) number: u64,
}

/// Up to so many bytes NCCL takes away before the other side comes.
const EAGER: usize = 64 << 10;

/// # Safety
///
/// There are so many bytes; nobody writes to them while this is used.
pub(super) unsafe fn view<'a>(address: usize, bytes: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), bytes) }
}

/// # Safety
///
/// There is room for so many bytes; nobody else uses them meanwhile.
unsafe fn write(address: usize, bytes: &[u8]) {
    let to = ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: the caller's promise; an operation in place writes what is there.
    unsafe { ptr::copy(bytes.as_ptr(), to, bytes.len()) };
}

/// A collective that runs: `None` everywhere when the communicator is over first.
struct Running<'m> {
    member: &'m Member,
    call: Collective,
    what: String,
}

/// Runs a collective, the one of this number.
pub(super) fn run(member: &Member, number: u64, call: Collective) {
    let what = format!("collective{number}");
    // When it ends early there is nothing to write: the communicator is over.
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
        // SAFETY: the caller keeps NCCL's contract: the send buffer has what the call says, until its
        // stream is past.
        unsafe { view(self.call.send, bytes) }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: the same for the receive buffer; what is written over is not read any more.
        unsafe { write(self.call.recv + offset, bytes) };
    }

    fn given<'b>(&self, own: &'b [u8]) -> Cow<'b, [u8]> {
        given(self.call.datatype, self.call.operation, own)
    }

    /// Writes what all have given, reduced.
    fn reduce(&self, own: &[u8]) -> Option<()> {
        let theirs = self.receive_all()?;
        let mut all: Vec<&[u8]> = theirs.iter().map(|theirs| &**theirs).collect();
        all.insert(self.member.room.rank, own);
        self.write(0, &reduce(self.call.datatype, self.call.operation, &all));
        Some(())
    }

    /// Writes what all have sent, one after the other.
    fn gather(&self, own: &[u8]) -> Option<()> {
        let theirs = self.receive_all()?;
        // First of all: in place it may lie where the others' go.
        self.write(self.member.room.rank * own.len(), own);
        for (rank, theirs) in self.member.room.others().into_iter().zip(theirs) {
            self.write(rank * own.len(), &theirs);
        }
        Some(())
    }

    fn post(&self, to: &[usize], bytes: &[u8]) {
        self.member.room.post(&self.what, to, &[&self.header().to_bytes(), bytes]);
    }

    /// Posts; what is long takes until everybody has taken it.
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

    /// Posts to each rank its own block; gives this rank's.
    fn deal<'b>(&self, all: &'b [u8], block: usize) -> &'b [u8] {
        let of = |rank: usize| &all[rank * block..(rank + 1) * block];
        for rank in self.member.room.others() {
            self.post(&[rank], of(rank));
        }
        of(self.member.room.rank)
    }

    /// What a rank has sent. Who sent something else has sent nothing, and is waited for.
    fn receive(&self, from: usize) -> Option<Body> {
        self.member.wait(|| self.header().strip(self.member.room.take(&self.what, from)?))
    }

    /// What every other rank has sent.
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
        // SAFETY: the caller keeps NCCL's contract: the send buffer has what the call says, until its
        // stream is past.
        let own = unsafe { view(self.address, self.bytes) };
        member.room.post(&self.what(), &[self.peer], &[&self.header().to_bytes(), own]);
    }

    /// Waits until it is taken, if it is long.
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
