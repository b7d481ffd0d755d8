//! Host memory: raw and zeroed.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use super::ranges::Ranges;
pub(super) use super::ranges::{InUse, Touch, guard_all, guard_closure, guard_two};

use crate::Result;
use crate::communicator::Health;
use crate::error::{Error, NoMemory};

/// Alignment of every block: two cache lines, what a vector unit likes.
const ALIGN: usize = 128;

/// What the system's large pages are aligned for, and from how many bytes on a block has them: it takes
/// fewer steps to touch it first, and to find it.
const LARGE_PAGE: usize = 2 << 20;
const LARGE: usize = 2 * LARGE_PAGE;

/// What a block's start is aligned for.
#[repr(align(128))]
struct Line;

static_assertions::const_assert_eq!(align_of::<Line>(), ALIGN);

/// A range of bytes, all initialised.
///
/// Nothing here gives a reference to the bytes: they are shared by every queued operation, and who
/// may touch which of them when is the business of stream order.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    /// What is freed; of no size if it is somebody else's.
    layout: Layout,
    ranges: Ranges,
}

// SAFETY: a block is an address and a size; it hands out raw pointers only.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    pub(super) fn zeroed(ordinal: u32, bytes: usize) -> Result<Self> {
        let none = || Error::from(NoMemory { bytes, kind: "host", ordinal, kept: 0, in_use: 0 });
        let align = if bytes < LARGE { ALIGN } else { LARGE_PAGE };
        let layout = Layout::from_size_align(bytes, align).map_err(|_| none())?;
        if bytes == 0 {
            return Ok(Self {
                start: NonNull::<Line>::dangling().cast(),
                layout,
                ranges: Ranges::default(),
            });
        }
        let start = match bytes < LARGE {
            // SAFETY: the size is not zero.
            true => NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?,
            false => large(layout).ok_or_else(none)?,
        };
        Ok(Self { start, layout, ranges: Ranges::default() })
    }

    /// Over memory of somebody else's, which it does not free.
    pub(super) fn adopted(start: *mut u8) -> Self {
        let start = NonNull::new(start).unwrap_or(NonNull::<Line>::dangling().cast());
        Self { start, layout: Layout::new::<()>(), ranges: Ranges::default() }
    }

    /// Peers may touch it from now on, unordered with its owner: every move takes its range first.
    /// Conflicts are reported to `owner`.
    pub(super) fn share(&self, owner: &Arc<Health>) {
        self.ranges.share(owner);
    }

    /// The address of the first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its range locks, if peers may touch it.
    pub(super) fn ranges(&self) -> Option<&Ranges> {
        self.is_shared().then_some(&self.ranges)
    }

    /// Whether peers may touch it.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.ranges.is_shared()
    }

    /// The address `offset` bytes in.
    ///
    /// # Safety
    /// `offset` is at most the block's size.
    #[inline]
    pub(super) unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: within the allocation, or its end.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

/// Zeroed memory in large pages, where the system has them.
fn large(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: the size is not zero.
    let start = NonNull::new(unsafe { alloc(layout) })?;
    #[cfg(target_os = "linux")]
    // SAFETY: the range is allocated, and how it is mapped changes nothing of what it holds. One that
    // the system refuses stays as it is.
    unsafe {
        libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE)
    };
    // SAFETY: so many bytes were allocated.
    unsafe { start.write_bytes(0, layout.size()) };
    Some(start)
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: allocated in `zeroed` with this layout, and freed once.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
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
            // SAFETY: so many bytes are there, and nobody else has them.
            let all = unsafe { std::slice::from_raw_parts(block.start(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0), "{bytes} bytes");
        }
        let refused = Block::zeroed(0, 1 << 60).map(drop);
        assert!(matches!(refused, Err(Error::NoMemory(_))), "{refused:?}");
    }
}
