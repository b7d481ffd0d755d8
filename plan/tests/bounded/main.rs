//! What checking a file of 1 MiB takes, whatever it says: counted in bytes that are live and in units of work.

mod inputs;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::thread;

use typed_nccl_plan::check::{MOST_WORK, check_counted};
use typed_nccl_plan::ir::Plan;

/// The largest file that is tried.
const FILE: usize = 1 << 20;
/// Bytes that may be live at once, the file aside: where nothing is inlined, less is tried.
const MEMORY: isize = if cfg!(debug_assertions) { 256 << 20 } else { 1 << 30 };
/// Files that are tried at once.
const THREADS: usize = 2;
/// Which part of the work is tried.
const SHARE: u64 = if cfg!(debug_assertions) { 16 } else { 1 };

/// The system's allocator, with a count of what each thread has live: a file is read and checked on one.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Neither cell is made when it is first used or dropped, so counting allocates nothing, at any time.
fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: everything is the system allocator's; counting touches no memory of the caller and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `ptr` came from `alloc` above with this layout, so from the system.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What is wrong with what reading and checking this file takes.
fn excess(name: &str, text: &str) -> Vec<String> {
    assert!(text.len() <= FILE, "{name} has {} bytes", text.len());
    let before = LIVE.get();
    PEAK.set(before);
    let read = Plan::from_json(text);
    let reading = PEAK.get() - before;
    let (said, work) = match &read {
        Ok(plan) => match check_counted(plan, SHARE) {
            (Ok(_), work) => ("accepted".to_owned(), work),
            (Err(rejected), work) => (format!("{:?}", rejected.problems[0].kind), work),
        },
        Err(error) => (error.to_string().replace('\n', " "), 0),
    };
    let peak = PEAK.get() - before;
    println!(
        "{name:<44} {:>5} KiB, {:>4} MiB read, {:>4} MiB in all, {work:>9} units: {said:.100}",
        text.len() >> 10,
        reading >> 20,
        peak >> 20
    );
    let memory = (peak > MEMORY).then(|| format!("{name}: {} MiB", peak >> 20));
    let work = (work > MOST_WORK / SHARE).then(|| format!("{name}: {work} units"));
    memory.into_iter().chain(work).collect()
}

#[test]
fn no_file_takes_more() {
    let only = std::env::var("BOUNDED_ONLY").unwrap_or_default();
    let mut files = inputs::all(FILE);
    files.retain(|(name, _)| name.contains(&only));
    // The last ones first: the longest is among them, and would be waited for alone.
    let files = Mutex::new(files);
    let next = || files.lock().expect("no thread panics with the files").pop();
    let work = || {
        let mut wrong = Vec::new();
        while let Some((name, text)) = next() {
            wrong.extend(excess(name, &text));
        }
        wrong
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let running = [(); THREADS].map(|()| scope.spawn(work));
        let found = running.into_iter().map(thread::ScopedJoinHandle::join);
        found.flat_map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}
