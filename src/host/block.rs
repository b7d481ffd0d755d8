//! Host memory: raw and zeroed.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::ranges::Ranges;
pub(super) use super::ranges::{InUse, Touch, guard_all, guard_closure, guard_reader, guard_two};
use super::{far, shared};

use crate::Result;
use crate::communicator::Health;
use crate::error::{Error, NoMemory};

/// Alignment of every block, and enough for every element: two cache lines, which suits vector
/// units.
pub(super) const ALIGN: usize = 128;

/// The alignment of the system's large pages, and the size from which a block uses them. Larger
/// pages need fewer page faults and TLB entries.
const LARGE_PAGE: usize = 2 << 20;
const LARGE: usize = 2 * LARGE_PAGE;

/// The alignment of a block's start.
#[repr(align(128))]
struct Line;

static_assertions::const_assert_eq!(align_of::<Line>(), ALIGN);

/// A range of bytes, all initialised.
///
/// Nothing here returns a reference to the bytes. All queued operations share them, and stream
/// order decides which may access them when.
pub struct Block {
    start: NonNull<u8>,
    memory: Kept,
    ranges: Ranges,
}

/// What a block keeps until it is dropped.
enum Kept {
    /// Memory that is freed with this layout.
    Heap(Layout),
    /// Memory that other processes map, or a part of it.
    Shared(Arc<shared::Piece>),
    /// Memory of a rank on another machine, with room for what is read of it.
    Far(far::Place, #[expect(dead_code, reason = "keeps the memory")] Keep),
    /// The mapping of a peer's memory, or bytes that came from another machine; nothing where the
    /// memory is not ours, or has no bytes.
    Other(#[expect(dead_code, reason = "keeps the memory")] Keep),
}

type Keep = Option<Arc<dyn Any + Send + Sync>>;

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("start", &self.start).finish_non_exhaustive()
    }
}

// SAFETY: a block is an address and a size; it hands out raw pointers only.
unsafe impl Send for Block {}
// SAFETY: as for `Send`.
unsafe impl Sync for Block {}

impl Block {
    pub(super) fn zeroed(ordinal: u32, bytes: usize) -> Result<Self> {
        let none = || Error::from(NoMemory { bytes, kind: "host", ordinal, kept: 0, in_use: 0 });
        let align = if bytes < LARGE { ALIGN } else { LARGE_PAGE };
        let layout = Layout::from_size_align(bytes, align).map_err(|_| none())?;
        if bytes == 0 {
            return Ok(Self::keeping(NonNull::<Line>::dangling().cast(), Kept::Other(None)));
        }
        if let Some(arena) = shared::opened() {
            let piece = arena.alloc(bytes, align).ok_or_else(none)?;
            let start = NonNull::new(piece.start()).ok_or_else(none)?;
            return Ok(Self::keeping(start, Kept::Shared(Arc::new(piece))));
        }
        let start = match bytes < LARGE {
            // SAFETY: the size is not zero.
            true => NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?,
            false => large(layout).ok_or_else(none)?,
        };
        Ok(Self::keeping(start, Kept::Heap(layout)))
    }

    fn keeping(start: NonNull<u8>, memory: Kept) -> Self {
        Self { start, memory, ranges: Ranges::default() }
    }

    /// A copy of these bytes.
    pub(super) fn copied(bytes: &[u8]) -> Result<Self> {
        let none = || NoMemory { bytes: bytes.len(), kind: "host", ordinal: 0, kept: 0, in_use: 0 };
        let layout = Layout::from_size_align(bytes.len().max(1), ALIGN).map_err(|_| none())?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(none)?;
        // SAFETY: as many bytes were allocated, and nothing else knows them.
        unsafe { start.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(Self::keeping(start, Kept::Heap(layout)))
    }

    /// `bytes` bytes of a peer's memory from `offset` on; `None` if it does not have them.
    pub(super) fn of_peer(peer: &Arc<shared::Peer>, offset: u64, bytes: usize) -> Option<Self> {
        let start = NonNull::new(peer.at(offset, bytes)?)?;
        Some(Self::keeping(start, Kept::Other(Some(peer.clone()))))
    }

    /// Memory of a rank on another machine, with room for `bytes` bytes of it that are read here.
    pub(super) fn of_far(place: far::Place, bytes: Option<usize>) -> Option<Self> {
        let Some(bytes) = bytes else {
            let nowhere = NonNull::<Line>::dangling().cast();
            return Some(Self::keeping(nowhere, Kept::Far(place, None)));
        };
        let scratch = far::Scratch::new(bytes)?;
        let start = NonNull::new(scratch.start())?;
        Some(Self::keeping(start, Kept::Far(place, Some(Arc::new(scratch)))))
    }

    /// What has been received from another machine.
    pub(super) fn received(scratch: far::Scratch) -> Option<Self> {
        let start = NonNull::new(scratch.start())?;
        Some(Self::keeping(start, Kept::Other(Some(Arc::new(scratch)))))
    }

    /// Where it lies, if that is on another machine.
    pub(super) fn far(&self) -> Option<far::Place> {
        match self.memory {
            Kept::Far(place, _) => Some(place),
            Kept::Heap(_) | Kept::Shared(_) | Kept::Other(_) => None,
        }
    }

    /// Where it lies in the memory that other processes map, if it does.
    pub(super) fn shared_at(&self) -> Option<u64> {
        shared::opened()?.offset_of(self.start.as_ptr())
    }

    /// Covers memory that is not ours and is not freed here.
    pub(super) fn adopted(start: *mut u8) -> Self {
        let start = NonNull::new(start).unwrap_or(NonNull::<Line>::dangling().cast());
        Self::keeping(start, Kept::Other(None))
    }

    /// Covers it from byte `at` on. Its memory stays as long as the caller keeps this block.
    ///
    /// # Safety
    /// `at` is at most the block's size.
    pub(super) unsafe fn part(&self, at: usize) -> Self {
        // A peer's put may still be under way into a window that its communicator lost. The part's
        // own locks would not see it.
        let all = Touch { block: self, start: 0, bytes: usize::MAX, write: true };
        drop(all.take_beside());
        let memory = match &self.memory {
            Kept::Shared(piece) => Kept::Shared(Arc::clone(piece)),
            Kept::Heap(_) | Kept::Far(..) | Kept::Other(_) => Kept::Other(None),
        };
        // SAFETY: the caller's promise.
        let start = unsafe { self.start.add(at) };
        Self::keeping(start, memory)
    }

    /// From now on peers may access it, unordered with its owner: every move takes its range first.
    /// Conflicts are reported to `owner`, if it is in this process.
    pub(super) fn share(&self, owner: Option<&Arc<Health>>) {
        self.ranges.share(owner);
    }

    /// Peers may write to it at any time from now on, also once it is freed: they had begun to.
    pub(super) fn expose(&self) {
        if let Kept::Shared(piece) = &self.memory {
            piece.expose();
        }
    }

    /// The address of the first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its range locks, if peers may access it.
    pub(super) fn ranges(&self) -> Option<&Ranges> {
        self.is_shared().then_some(&self.ranges)
    }

    /// Whether peers may access it.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.ranges.is_shared()
    }

    /// The address at `offset` bytes.
    ///
    /// # Safety
    /// `offset` is at most the block's size.
    #[inline]
    pub(super) unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: the address is within the allocation, or at its end.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

/// Zeroed memory in large pages, if the system has them.
fn large(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: the size is not zero.
    let start = NonNull::new(unsafe { alloc(layout) })?;
    #[cfg(target_os = "linux")]
    // SAFETY: the range is allocated, and the advice does not change its contents. If the system
    // refuses, the range stays as it is.
    unsafe {
        libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE)
    };
    // SAFETY: this many bytes were allocated.
    unsafe { start.write_bytes(0, layout.size()) };
    Some(start)
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Kept::Heap(layout) = self.memory {
            // SAFETY: allocated with this layout, and freed once.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, Block, LARGE, LARGE_PAGE};
    use crate::error::Error;

    #[test]
    fn blocks_of_every_size_are_zeroed_and_aligned() {
        for (bytes, align) in [(5, ALIGN), (LARGE - 1, ALIGN), (LARGE + 5, LARGE_PAGE)] {
            let block = Block::zeroed(0, bytes).expect("there is so much");
            assert_eq!(block.start().addr() % align, 0);
            // SAFETY: the block has this many bytes, and nothing else uses them.
            let all = unsafe { std::slice::from_raw_parts(block.start(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0), "{bytes} bytes");
        }
        let refused = Block::zeroed(0, 1 << 60).map(drop);
        assert!(matches!(refused, Err(Error::NoMemory(_))), "{refused:?}");
    }
}
