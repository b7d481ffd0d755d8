//! Collectives and transfers, as messages.

use std::ptr;

use nccl_sys::ncclDataType_t;

use super::header::Header;
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
/// There are so many bytes; nobody writes to them meanwhile.
pub(super) unsafe fn read(address: usize, bytes: usize) -> Vec<u8> {
    let mut own = vec![0; bytes];
    let from = ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: the caller's promise; the other side is new.
    unsafe { ptr::copy_nonoverlapping(from, own.as_mut_ptr(), bytes) };
    own
}

/// # Safety
///
/// There is room for so many bytes; nobody uses them meanwhile.
unsafe fn write(address: usize, bytes: &[u8]) {
    let to = ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: the caller's promise; the other side is this function's.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
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
        let is_root = rank == self.call.root;
        let blocks = |all: &[Vec<u8>]| all.concat();
        match self.call.kind {
            Kind::AllReduce => {
                let own = self.given(block);
                self.post(&self.others(), &own);
                let all = self.receive_all(own)?;
                self.write(0, &self.reduced(&all));
            }
            Kind::Reduce => {
                let own = self.given(block);
                if !is_root {
                    return self.send(&[self.call.root], &own);
                }
                let all = self.receive_all(own)?;
                self.write(0, &self.reduced(&all));
            }
            Kind::Broadcast => {
                if !is_root {
                    let found = self.receive(self.call.root)?;
                    self.write(0, &found);
                    return Some(());
                }
                let own = self.read(0, block);
                self.write(0, &own);
                self.send(&self.others(), &own)?;
            }
            Kind::AllGather => {
                let own = self.read(0, block);
                self.post(&self.others(), &own);
                self.write(0, &blocks(&self.receive_all(own)?));
            }
            Kind::ReduceScatter => {
                let given = self.given(block * size);
                let own = self.deal(&given, block);
                let all = self.receive_all(own)?;
                self.write(0, &self.reduced(&all));
            }
            Kind::AllToAll => {
                let all = self.read(0, block * size);
                let own = self.deal(&all, block);
                self.write(0, &blocks(&self.receive_all(own)?));
            }
            Kind::Gather => {
                let own = self.read(0, block);
                if !is_root {
                    return self.send(&[self.call.root], &own);
                }
                self.write(0, &blocks(&self.receive_all(own)?));
            }
            Kind::Scatter => {
                if !is_root {
                    let found = self.receive(self.call.root)?;
                    self.write(0, &found);
                    return Some(());
                }
                let all = self.read(0, block * size);
                let own = self.deal(&all, block);
                self.write(0, &own);
                self.settle(&self.others(), block)?;
            }
        }
        Some(())
    }

    fn others(&self) -> Vec<usize> {
        let own = self.member.room.rank;
        (0..self.member.room.size).filter(|rank| *rank != own).collect()
    }

    fn header(&self) -> Header {
        let Collective { kind, datatype, operation, root, count, .. } = self.call;
        let op = operation.name();
        let (kind, datatype, root) = (kind as i32, datatype.0, root as i32);
        Header { kind, datatype, op, root, count: count as u64 }
    }

    fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        // SAFETY: the caller keeps NCCL's contract: the send buffer has what the call says, until its
        // stream is past.
        unsafe { read(self.call.send + offset, bytes) }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: the same for the receive buffer.
        unsafe { write(self.call.recv + offset, bytes) };
    }

    fn given(&self, bytes: usize) -> Vec<u8> {
        given(self.call.datatype, self.call.operation, self.read(0, bytes))
    }

    fn reduced(&self, all: &[Vec<u8>]) -> Vec<u8> {
        reduce(self.call.datatype, self.call.operation, all)
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
    fn deal(&self, all: &[u8], block: usize) -> Vec<u8> {
        let of = |rank: usize| &all[rank * block..(rank + 1) * block];
        for rank in self.others() {
            self.post(&[rank], of(rank));
        }
        of(self.member.room.rank).to_vec()
    }

    /// What a rank has sent. Who sent something else has sent nothing, and is waited for.
    fn receive(&self, from: usize) -> Option<Vec<u8>> {
        self.member.wait(|| self.header().strip(self.member.room.take(&self.what, from)?))
    }

    /// What every rank has, this one included.
    fn receive_all(&self, own: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        let mut own = Some(own);
        let rank = self.member.room.rank;
        (0..self.member.room.size)
            .map(|from| if from == rank { own.take() } else { self.receive(from) })
            .collect()
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
        let own = unsafe { read(self.address, self.bytes) };
        member.room.post(&self.what(), &[self.peer], &[&self.header().to_bytes(), &own]);
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
