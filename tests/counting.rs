//! Counts the program's allocations: every byte passes through here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering::Relaxed};

/// How many bytes are allocated now.
pub(crate) fn live() -> isize {
    LIVE.load(Relaxed)
}

/// How often all threads have allocated.
pub(crate) fn by_all_threads() -> u64 {
    ALLOCATIONS.load(Relaxed)
}

/// How often this thread has allocated; the harness and other tests have their own threads.
pub(crate) fn by_this_thread() -> u64 {
    OWN.get()
}

static LIVE: AtomicIsize = AtomicIsize::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
}

fn count(more: usize, less: usize) {
    LIVE.fetch_add(more as isize - less as isize, Relaxed);
    if more > 0 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        OWN.set(OWN.get() + 1);
    }
}

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: the system's allocator does the work; counting neither allocates nor panics: the counters
// are constant-initialised and have no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promises are the system's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller's promises are the system's.
        unsafe { System.realloc(block, layout, size) }
    }
}
