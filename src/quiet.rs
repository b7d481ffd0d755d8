//! Whether a whole process waits: only then is it certain that nobody makes the next call.
//!
//! A communicator may be in the hands of any thread, so every thread counts. Those that are known to
//! wait are counted where they do; the system says how many there are. It says of the others, too,
//! whether they wait for nothing but other threads of the process: a lock, a channel, a join.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Threads that wait for other threads to end, or for communicators that are dropped.
static QUIET: AtomicUsize = AtomicUsize::new(0);

/// Communicators that were dropped and have not ended.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// This thread does nothing by itself for as long as it lives.
pub(crate) struct Quiet(());

impl Quiet {
    pub(crate) fn enter() -> Self {
        QUIET.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.fetch_sub(1, SeqCst);
    }
}

/// Something goes on in the background for as long as it lives.
pub(crate) struct Busy(());

impl Busy {
    pub(crate) fn new() -> Self {
        BUSY.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, SeqCst);
    }
}

/// Threads that wait for other threads, each with how often it has waited. While this stays the same,
/// none of them has done anything.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Still(Vec<(u32, u64)>);

/// What the threads do that are not known to wait, if this process has none but `waiting` ones, those
/// that are quiet, and such as wait for other threads. None where the system does not tell.
pub(crate) fn all_wait(waiting: usize, known: impl Iterator<Item = Option<u32>>) -> Option<Still> {
    if BUSY.load(SeqCst) > 0 {
        return None;
    }
    let threads = system::threads()?;
    if threads.len() == waiting + QUIET.load(SeqCst) {
        return Some(Still::default());
    }
    let known: Option<HashSet<u32>> = known.collect();
    let known = known?;
    let others = threads.iter().filter(|thread| !known.contains(thread));
    let still = others.map(|&thread| Some((thread, system::waits(thread, &threads)?)));
    still.collect::<Option<Vec<_>>>().map(Still)
}

pub(crate) use system::this_thread;

#[cfg(target_os = "linux")]
mod system {
    use std::fs;

    /// The number of the `futex` system call, through which threads wait for each other.
    const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202" } else { "98" };

    /// Waits, whatever the clock, and those for memory of this process only.
    const WAITS: [u64; 2] = [0, 9];
    const PRIVATE: u64 = 128;
    const CLOCK: u64 = 256;

    thread_local! {
        static THIS: Option<u32> = {
            let link = fs::read_link("/proc/thread-self").ok();
            link.and_then(|link| link.file_name()?.to_str()?.parse().ok())
        };
    }

    /// This thread's number.
    pub(crate) fn this_thread() -> Option<u32> {
        THIS.try_with(|&this| this).ok().flatten()
    }

    /// The threads of this process.
    pub(super) fn threads() -> Option<Vec<u32>> {
        let tasks = fs::read_dir("/proc/self/task").ok()?;
        tasks.map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    /// How often a thread has waited, if it waits now, without a deadline, for other `threads`.
    pub(super) fn waits(thread: u32, threads: &[u32]) -> Option<u64> {
        // The count first: one that goes on in between waits once more.
        let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
        let call = fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
        let mut call = call.split(' ');
        let is_futex = call.next()? == FUTEX;
        let mut number = || u64::from_str_radix(call.next()?.strip_prefix("0x")?, 16).ok();
        let (_address, operation, value, deadline) = (number()?, number()?, number()?, number()?);
        let is_wait = WAITS.contains(&(operation & !PRIVATE & !CLOCK));
        // The end of a thread is told through memory that other processes might share.
        let is_join = threads.iter().any(|&thread| u64::from(thread) == value & 0xffff_ffff);
        let is_private = operation & PRIVATE != 0 || is_join;
        let count =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        let waits = is_futex && is_wait && is_private && deadline == 0;
        if waits { count.trim().parse().ok() } else { None }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(crate) fn this_thread() -> Option<u32> {
        None
    }

    pub(super) fn threads() -> Option<Vec<u32>> {
        None
    }

    pub(super) fn waits(_: u32, _: &[u32]) -> Option<u64> {
        None
    }
}
