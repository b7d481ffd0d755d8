//! Whether a whole process waits: only then is it certain that nobody makes the next call.
//!
//! A communicator may be in the hands of any thread, so every thread counts. Those that are known
//! to wait are known by their numbers. The system says of each other one whether it waits for
//! nothing but threads of this process: a lock, a channel, a join. What it does not say for certain
//! counts as work: a false alarm would end a program that is right.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::lock::Mutex;

/// Threads that make no call, whatever wakes them.
static QUIET: Mutex<Vec<Option<u32>>> = Mutex::new(Vec::new());

/// Communicators that were dropped and have not ended.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// This thread makes no call for as long as it lives.
pub(crate) struct Quiet(Option<u32>);

impl Quiet {
    pub(crate) fn enter() -> Self {
        let this = this_thread();
        QUIET.lock().push(this);
        Self(this)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let mut quiet = QUIET.lock();
        if let Some(at) = quiet.iter().position(|thread| *thread == self.0) {
            quiet.swap_remove(at);
        }
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

/// Threads that wait for other threads, each with how often it has waited. While this stays the
/// same, none of them has done anything.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Still(Vec<(u32, u64)>);

/// What the threads do that are not `known` to wait, if all of them wait for other threads. None if
/// one may go on, and where the system does not tell.
pub(crate) fn all_wait(known: impl Iterator<Item = Option<u32>>) -> Option<Still> {
    if BUSY.load(SeqCst) > 0 {
        return None;
    }
    let quiet = QUIET.lock().clone();
    let known: Option<HashSet<u32>> = known.chain(quiet).collect();
    let (known, threads) = (known?, system::threads()?);
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

    /// Signals whose handlers wake nobody: 4 to 8, 11 and 31, which tell of faults, and 32 and 33,
    /// which the C library has for itself.
    const FAULTS: u64 = 0x1_c000_04f8;

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
        let said = |what| status.lines().find_map(|line| line.strip_prefix(what)).map(str::trim);
        // One that a debugger has stopped is in its call still, and may have been woken.
        let sleeps = said("State:")?.starts_with('S');
        // A handler may wake it, whoever sends the signal.
        let handled = u64::from_str_radix(said("SigCgt:")?, 16).ok()? & !FAULTS;
        let mut call = call.split(' ');
        let is_futex = call.next()? == FUTEX;
        if !sleeps || handled != 0 || !is_futex {
            return None;
        }
        let mut number = || u64::from_str_radix(call.next()?.strip_prefix("0x")?, 16).ok();
        let (address, operation, value, deadline) = (number()?, number()?, number()?, number()?);
        let is_wait = WAITS.contains(&(operation & !PRIVATE & !CLOCK));
        // The end of a thread is told as if other processes shared the memory.
        let is_thread = || threads.iter().any(|&thread| u64::from(thread) == value & 0xffff_ffff);
        let is_private = operation & PRIVATE != 0 || (is_thread() && is_own(address)?);
        let waits = is_wait && is_private && deadline == 0;
        if waits { said("voluntary_ctxt_switches:")?.parse().ok() } else { None }
    }

    /// Whether no other process shares the memory at an address.
    fn is_own(address: u64) -> Option<bool> {
        let maps = fs::read_to_string("/proc/self/maps").ok()?;
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            let is_there = (number(from)?..number(to)?).contains(&address);
            is_there.then(|| rest.as_bytes().get(3) == Some(&b'p'))
        })
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
