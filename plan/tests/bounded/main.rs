//! What checking a file of 1 MiB takes, whatever it says: counted in bytes that are live and in units of work.

mod inputs;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use typed_nccl_plan::check::{MOST_WORK, check_counted};
use typed_nccl_plan::ir::Plan;

/// The largest file that is tried.
const FILE: usize = 1 << 20;
/// Bytes that may be live at once, the file aside: where nothing is inlined, less is tried.
const MEMORY: usize = if cfg!(debug_assertions) { 512 << 20 } else { 1 << 30 };
/// Which part of the work is tried.
const SHARE: u64 = if cfg!(debug_assertions) { 8 } else { 1 };

/// The system's allocator, with a count of what is live.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: everything is the system allocator's; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `ptr` came from `alloc` above with this layout, so from the system.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_file_takes_more() {
    let mut wrong = Vec::new();
    let only = std::env::var("BOUNDED_ONLY").unwrap_or_default();
    for (name, text) in inputs::all(FILE) {
        if !name.contains(&only) {
            continue;
        }
        assert!(text.len() <= FILE, "{name} has {} bytes", text.len());
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        let read = Plan::from_json(&text);
        let reading = PEAK.load(Relaxed) - before;
        let (said, work) = match &read {
            Ok(plan) => match check_counted(plan, SHARE) {
                (Ok(_), work) => ("accepted".to_owned(), work),
                (Err(rejected), work) => (format!("{:?}", rejected.problems[0].kind), work),
            },
            Err(error) => (error.to_string().replace('\n', " "), 0),
        };
        let peak = PEAK.load(Relaxed) - before;
        println!(
            "{name:<44} {:>5} KiB, {:>4} MiB read, {:>4} MiB in all, {work:>9} units: {said:.100}",
            text.len() >> 10,
            reading >> 20,
            peak >> 20
        );
        if peak > MEMORY {
            wrong.push(format!("{name}: {} MiB", peak >> 20));
        }
        if work > MOST_WORK / SHARE {
            wrong.push(format!("{name}: {work} units"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
