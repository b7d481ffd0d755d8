//! Memory that messages are received into, kept for the next ones: new pages cost more than a copy.

use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::Address;
use crate::lock::Mutex;

const SMALLEST: usize = 64 << 10;

/// How many bytes are kept.
const KEPT: usize = 256 << 20;

/// What nobody uses, with its size.
static FREE: Mutex<(Vec<(Address, usize)>, usize)> = Mutex::new((Vec::new(), 0));

/// Memory with any contents. Pages that are never touched cost nothing.
pub(in crate::host) struct Scratch {
    start: Address,
    bytes: usize,
}

// SAFETY: it is an address and a size; it hands out raw pointers only.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// `None` if the system has no room.
    pub(in crate::host) fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(SMALLEST).checked_next_power_of_two()?;
        let (free, kept) = &mut *FREE.lock();
        if let Some(at) = free.iter().rposition(|(_, size)| *size == bytes) {
            let (start, _) = free.swap_remove(at);
            *kept -= bytes;
            return Some(Self { start, bytes });
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the system chooses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags) }.ok()?;
        // SAFETY: the range was just mapped, and the advice does not change its contents.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        Some(Self { start: Address(start.cast()), bytes })
    }

    pub(in crate::host) fn start(&self) -> *mut u8 {
        self.start.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Self { start, bytes } = *self;
        let (free, kept) = &mut *FREE.lock();
        if *kept + bytes <= KEPT {
            *kept += bytes;
            return free.push((start, bytes));
        }
        // SAFETY: mapped in `new`; whoever drops it keeps no pointers into it.
        let _ = unsafe { munmap(start.0.cast(), bytes) };
    }
}
