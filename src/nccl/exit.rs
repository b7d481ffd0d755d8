//! The end of the process. No thread of ours is inside NCCL when NCCL's destructors run, and it takes
//! seconds at most, or half a minute if other processes are late to end a communicator.
//!
//! Communicators end on threads that `main` does not wait for, such as the reaper, and other
//! threads may be inside an operation. A process that ended meanwhile would destroy NCCL under
//! them. A stream that waits for a signal that never comes, or a thread held up by NCCL, would also
//! keep the destructors of CUDA and NCCL from returning.
//!
//! So the exit handler waits for work in progress. After a second it announces the end of the
//! process, so that the ranks held by the reaper raise the signals they owe. If something is still
//! in progress a few seconds later, the process ends without those destructors. Threads known to
//! wait for a lost rank are not waited for.

use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Condvar, Once};
use std::time::{Duration, Instant};

use super::destroying;
use super::family;
use super::watch;
use crate::cuda::kernels::Stop;
use crate::lock::Mutex;

/// How long to wait for work to end by itself.
const BY_ITSELF: Duration = Duration::from_secs(1);

/// How long to wait after announcing the end.
const TOLD: Duration = Duration::from_secs(4);

/// How long to wait then for other processes to end their part of a communicator. NCCL alone would
/// wait for them without a limit.
const MET: Duration = Duration::from_secs(20);

/// How long to wait for threads that wait for a lost rank.
const LOST: Duration = Duration::from_millis(50);

/// How often the state is checked.
const EVERY: Duration = Duration::from_millis(2);

/// Longer than a thread takes between checking its communicator's health and entering NCCL.
const CROSSING: Duration = Duration::from_millis(20);

struct State {
    /// The communicators of threads inside NCCL.
    inside: Vec<u64>,
    /// Communicators whose threads do not return from NCCL.
    lost: Vec<u64>,
    /// How many threads wait for other processes.
    late: usize,
    ending: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { inside: Vec::new(), lost: Vec::new(), late: 0, ending: false });
static LEFT: Condvar = Condvar::new();

/// Proof that a thread is registered as inside NCCL with a communicator.
pub(super) struct Inside(u64);

/// Enters with the communicator of this number; `None` once the process ends.
pub(super) fn enter(comm: u64) -> Option<Inside> {
    // Registered after NCCL is loaded, so that it runs before NCCL's own destructors.
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(register);
    let mut state = STATE.lock();
    if state.ending {
        return None;
    }
    state.inside.push(comm);
    Some(Inside(comm))
}

/// Proof that a thread may wait for other processes to end a communicator.
pub(super) struct Late(());

/// `None` once the process ends.
pub(super) fn enter_late() -> Option<Late> {
    let mut state = STATE.lock();
    if state.ending {
        return None;
    }
    state.late += 1;
    Some(Late(()))
}

impl Drop for Late {
    fn drop(&mut self) {
        STATE.lock().late -= 1;
        LEFT.notify_all();
    }
}

/// Marks the threads inside NCCL with this communicator as waiting for a lost rank. The process
/// then ends without waiting for them.
pub(super) fn lose(comm: u64) {
    let mut state = STATE.lock();
    if !state.lost.contains(&comm) {
        state.lost.push(comm);
    }
    drop(state);
    LEFT.notify_all();
}

/// Whether [`lose`] was called for this communicator.
pub(super) fn is_lost(comm: u64) -> bool {
    STATE.lock().lost.contains(&comm)
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut state = STATE.lock();
        let inside = state.inside.iter().position(|comm| *comm == self.0);
        inside.map(|at| state.inside.swap_remove(at));
        drop(state);
        LEFT.notify_all();
    }
}

/// The process that communicates. A child made by `fork` has none of its threads, and leaves its
/// ranks alone.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn register() {
    OWNER.store(process::id(), Relaxed);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function lives as long as the process, takes these arguments and does not unwind.
    let failed = unsafe { on_exit(at_exit, std::ptr::null_mut()) } != 0;
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    // SAFETY: the function lives as long as the process, takes nothing and does not unwind.
    let failed = unsafe { libc::atexit(at_exit) } != 0;
    if failed {
        log::debug!("no place among the functions that run when the process ends");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    /// `atexit` with the exit status passed to the function.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), context: *mut c_void) -> c_int;
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    if !settle() {
        last_words();
        // SAFETY: null means all of C's streams. Rust's were flushed when `main` returned.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        // SAFETY: it ends the process, without the destructors that would not return.
        unsafe { libc::_exit(status) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
extern "C" fn at_exit() {
    if !settle() {
        last_words();
    }
}

/// Waits for work in progress to end, and returns whether it did.
fn settle() -> bool {
    if OWNER.load(Relaxed) != process::id() {
        return true;
    }
    if until(BY_ITSELF, is_met) {
        STATE.lock().ending = true;
    }
    // A kernel that waits may wait for a rank that only this process has.
    Stop::set_all();
    let families = family::all();
    for family in &families {
        family.process_ends();
    }
    if families.iter().any(|family| family.is_alive()) {
        std::thread::sleep(CROSSING);
    }
    let over = until(TOLD, || is_over(false)) && until(MET, is_met);
    STATE.lock().ending = true;
    over && until(BY_ITSELF, is_met) && until(LOST, || is_over(true))
}

/// Whether no thread is inside NCCL, or about to destroy a communicator, and none of its work is in
/// progress. Lost communicators count only with `lost_too`.
fn is_over(lost_too: bool) -> bool {
    let state = STATE.lock();
    let inside = state.inside.iter().any(|comm| lost_too || !state.lost.contains(comm));
    drop(state);
    !inside
        && family::all().iter().all(|family| family.is_quiet(lost_too))
        && watch::release_quarantined(lost_too)
        && destroying::is_over(false)
}

/// Whether other processes wait for none of this one's communicators either.
fn is_met() -> bool {
    is_over(false) && destroying::is_over(true) && STATE.lock().late == 0
}

fn until(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if started.elapsed() >= limit {
            return false;
        }
        // A leaving thread wakes this one; the device does not.
        drop(LEFT.wait_timeout(STATE.lock(), EVERY));
    }
}

fn last_words() {
    let families = family::all();
    let holds: Vec<String> = families.iter().filter_map(|family| family.holds()).collect();
    let holds = match holds.is_empty() {
        true if STATE.lock().late > 0 => {
            "other processes have not ended their part of a communicator".to_owned()
        }
        true => "a communicator's end has not returned, or its stream waits".to_owned(),
        false => holds.join("; "),
    };
    // Standard error may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "typed-nccl: the process ends without the destructors of NCCL and CUDA, which would not return: {holds}"
    );
}
