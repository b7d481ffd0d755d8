//! Windows: the other ranks' memory that a rank reaches.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use nccl_sys::{NCCL_WIN_COLL_SYMMETRIC, ncclResult_t};

use super::end::Hold;
use super::member::{Counted, Member};
use super::memory;
use super::os::Shared;
use crate::state::Refusal;

/// A window, as one rank has it.
pub(crate) struct Reach {
    memory: usize,
    size: usize,
    /// By rank; empty if the window is not symmetric.
    parts: Vec<Part>,
}

struct Part {
    shared: Shared,
    offset: usize,
    size: usize,
}

impl Reach {
    pub(super) fn has(&self, address: usize) -> bool {
        !self.parts.is_empty() && (self.memory..self.memory + self.size).contains(&address)
    }

    /// An address in a rank's part; `None` if it is not reachable.
    pub(crate) fn address(&self, rank: usize, offset: usize) -> Option<*mut c_void> {
        let part = self.parts.get(rank)?;
        // It stays inside, or is only compared.
        Some(part.shared.start().wrapping_add(part.offset + offset).cast())
    }

    /// The size of a rank's part.
    pub(crate) fn size_at(&self, rank: usize) -> Option<usize> {
        self.parts.get(rank).map(|part| part.size)
    }

    /// Writes into a rank's part.
    ///
    /// # Safety
    ///
    /// There are this many bytes at `from`; nothing uses the target bytes meanwhile.
    pub(super) unsafe fn write(&self, rank: usize, offset: usize, from: usize, bytes: usize) {
        let Some(to) = self.address(rank, offset) else { return };
        let from = ptr::with_exposed_provenance::<u8>(from);
        // SAFETY: the target is inside the mapping, or the call would have been refused; the rest
        // is this function's contract.
        unsafe { ptr::copy(from, to.cast(), bytes) };
    }
}

/// Registers memory. A symmetric window waits for all ranks; `None` if NCCL returns none.
pub(crate) fn register(
    member: &Arc<Member>,
    memory: usize,
    size: usize,
    flags: c_int,
) -> Result<Option<Reach>, Refusal> {
    if flags & NCCL_WIN_COLL_SYMMETRIC == 0 {
        return Ok(Some(Reach { memory, size, parts: Vec::new() }));
    }
    if !member.one_host {
        return Ok(None);
    }
    let failed = |words: &str| Refusal {
        result: ncclResult_t::ncclUnhandledCudaError,
        words: words.to_owned(),
    };
    let found = memory::find(memory).ok_or_else(|| failed("the memory is not NCCL's"))?;
    let (path, offset) = (found.0.to_string_lossy().into_owned(), found.1);
    let (room, _hold) = (&member.room, Hold::new());
    let what = format!("window{}", member.count(Counted::Window));
    let everybody: Vec<usize> = (0..room.size).collect();
    room.post(&what, &everybody, &[format!("{offset} {size} {path}").as_bytes()]);
    let part = |rank| {
        let said = member.wait(|| room.take(&what, rank)).ok_or_else(|| failed("revoked"))?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let mut words = said.splitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let (_its_offset, size) = (number(), number());
        let shared = Shared::open(Path::new(words.next().unwrap_or_default()));
        let shared = shared.map_err(|error| failed(&error.to_string()))?;
        // As NCCL does: a peer's window is taken to begin where this rank's does.
        Ok(Part { shared, offset, size })
    };
    let parts = everybody.iter().map(|rank| part(*rank)).collect::<Result<_, Refusal>>()?;
    Ok(Some(Reach { memory, size, parts }))
}
