//! The end of the process: no thread of ours is inside NCCL when its destructors run, and it comes
//! within seconds.
//!
//! Communicators end on threads that `main` does not wait for: the reaper's, those that join; and other
//! threads may be inside an operation. A process that ends meanwhile would take NCCL apart under them.
//! And a stream that waits for a signal that never comes, or a thread that NCCL holds up, would keep
//! the destructors of CUDA and NCCL from returning. So the end waits for what is under way. What is not
//! over in a second is told that the process ends, so that the ranks which the reaper has raise what
//! they owe. If something still holds on after that, the process ends without those destructors. What is
//! known to hold on for ever, because it waits for a rank that is gone, is not waited for.

use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::sync::{Condvar, Once};
use std::time::{Duration, Instant};

use super::family;
use super::watch;
use crate::cuda::kernels::Stop;
use crate::lock::Mutex;

/// How long what ends by itself may take.
const BY_ITSELF: Duration = Duration::from_secs(1);

/// How long what is told to end may take.
const TOLD: Duration = Duration::from_secs(4);

/// How long what waits for a rank that is gone may take all the same.
const LOST: Duration = Duration::from_millis(50);

/// How often the end looks.
const EVERY: Duration = Duration::from_millis(2);

/// Longer than a thread takes from its look at its communicator's health into NCCL.
const CROSSING: Duration = Duration::from_millis(20);

struct State {
    /// By communicator.
    inside: Vec<u64>,
    /// Communicators whose threads do not come back.
    lost: Vec<u64>,
    ending: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { inside: Vec::new(), lost: Vec::new(), ending: false });
static LEFT: Condvar = Condvar::new();

/// Says that a thread is inside NCCL with the life of a communicator.
pub(super) struct Inside(u64);

/// Enters with the communicator of this number; none when the process ends.
pub(super) fn enter(comm: u64) -> Option<Inside> {
    // After NCCL was loaded, so that it runs before NCCL's own destructors.
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(register);
    let mut state = STATE.lock();
    if state.ending {
        return None;
    }
    state.inside.push(comm);
    Some(Inside(comm))
}

/// The threads that are inside with this communicator wait for a rank that is gone: the end of the process
/// does not wait for them.
pub(super) fn lose(comm: u64) {
    let mut state = STATE.lock();
    if !state.lost.contains(&comm) {
        state.lost.push(comm);
    }
    drop(state);
    LEFT.notify_all();
}

/// Whether that was said of this communicator.
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

fn register() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function is there as long as the process, takes what it is called with and does not
    // unwind.
    let failed = unsafe { on_exit(at_exit, std::ptr::null_mut()) } != 0;
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    // SAFETY: the function is there as long as the process, takes nothing and does not unwind.
    let failed = unsafe { libc::atexit(at_exit) } != 0;
    if failed {
        log::debug!("no place among the functions that run when the process ends");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    /// `atexit` whose functions are told the exit status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), context: *mut c_void) -> c_int;
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    if !settle() {
        last_words();
        // SAFETY: null: all of C's streams. Rust's were flushed when `main` returned.
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

/// Brings what is under way to its end; whether it has come to it.
fn settle() -> bool {
    if until(BY_ITSELF, || is_over(false)) {
        STATE.lock().ending = true;
    }
    // Who waits in a kernel waits for a rank that this process may be the last to have.
    Stop::set_all();
    let families = family::all();
    for family in &families {
        family.process_ends();
    }
    if families.iter().any(|family| family.is_alive()) {
        std::thread::sleep(CROSSING);
    }
    let over = until(TOLD, || is_over(false));
    STATE.lock().ending = true;
    over && until(BY_ITSELF, || is_over(false)) && until(LOST, || is_over(true))
}

/// Whether nobody is inside NCCL and nothing of its work is under way. What is lost counts only if it is
/// asked for.
fn is_over(lost_too: bool) -> bool {
    let state = STATE.lock();
    let inside = state.inside.iter().any(|comm| lost_too || !state.lost.contains(comm));
    drop(state);
    !inside
        && family::all().iter().all(|family| family.is_quiet(lost_too))
        && watch::exhume(lost_too)
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
        // Who leaves wakes it; the device does not.
        drop(LEFT.wait_timeout(STATE.lock(), EVERY));
    }
}

fn last_words() {
    let families = family::all();
    let holds: Vec<String> = families.iter().filter_map(|family| family.holds()).collect();
    let holds = match holds.is_empty() {
        true => "a communicator's end has not returned, or its stream waits".to_owned(),
        false => holds.join("; "),
    };
    // Who reads standard error may be gone.
    let _ = writeln!(
        std::io::stderr(),
        "typed-nccl: the process ends without the destructors of NCCL and CUDA, which would not return: {holds}"
    );
}
