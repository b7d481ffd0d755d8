//! This process's memory that peers map.
//!
//! The heap's bookkeeping is private, so no peer can damage it. Free memory is zero: a piece is
//! cleaned when it is freed, and its whole pages go back to the system if that is worth the call.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use range_alloc::RangeAllocator;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use super::doorman::{self, Address};
use super::header::{Header, MAGIC};
use super::map::{self, LARGE_PAGE, Mapping};
use crate::lock::Mutex;

/// Where pieces begin, and so the alignment of all: two cache lines.
const ALIGN: u64 = 128;

/// From this size on pieces begin at large pages.
const LARGE: usize = 2 * LARGE_PAGE;

/// From this size on a freed piece's pages go back to the system.
const RETURNED: u64 = 256 << 10;

const PAGE: u64 = 4096;

/// Where the heap begins.
pub(super) const HEAP: usize = size_of::<Header>().next_multiple_of(LARGE_PAGE);

static ARENA: OnceLock<Arena> = OnceLock::new();

/// Memory of this process that peers map.
pub(in crate::host) struct Arena {
    file: File,
    mapping: Mapping,
    id: u64,
    heap: Mutex<RangeAllocator<u64>>,
    address: OnceLock<Address>,
}

/// This process's arena. The first call makes it.
pub(in crate::host) fn open() -> io::Result<&'static Arena> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock();
    match ARENA.get() {
        Some(arena) => Ok(arena),
        None => {
            let new = Arena::new(map::create()?)?;
            Ok(ARENA.get_or_init(|| new))
        }
    }
}

/// This process's arena, if there is one.
#[inline]
pub(in crate::host) fn opened() -> Option<&'static Arena> {
    ARENA.get()
}

impl Arena {
    pub(super) fn new((file, mapping): (File, Mapping)) -> io::Result<Self> {
        let id = u64::from_le_bytes(doorman::random()?) | 1;
        let heap = Mutex::new(RangeAllocator::new(HEAP as u64..mapping.len() as u64));
        let arena = Self { file, mapping, id, heap, address: OnceLock::new() };
        arena.header().id.store(id, Relaxed);
        arena.header().magic.store(MAGIC, Relaxed);
        Ok(arena)
    }

    /// Zeroed memory, or `None` if there is no room.
    pub(in crate::host) fn alloc(&'static self, bytes: usize, align: usize) -> Option<Piece> {
        if !align.is_power_of_two() {
            return None;
        }
        let least = if bytes < LARGE { ALIGN } else { LARGE_PAGE as u64 };
        let align = least.max(align as u64);
        let length = (bytes.max(1) as u64).checked_next_multiple_of(ALIGN)?;
        // The bound keeps the heap's sums from overflowing.
        if length.max(align) > self.mapping.len() as u64 {
            return None;
        }
        let range = self.heap.lock().allocate_range_aligned(length, align).ok()?;
        let piece = Piece { arena: self, range, bytes };
        (bytes < LARGE || piece.populate()).then_some(piece)
    }

    /// Where an address lies in it.
    #[inline]
    pub(in crate::host) fn offset_of(&self, address: *const u8) -> Option<u64> {
        let offset = address.addr().checked_sub(self.mapping.start().addr().get())?;
        (HEAP..self.mapping.len()).contains(&offset).then_some(offset as u64)
    }

    /// What a peer needs to reach it. From the first call on a thread admits peers.
    pub(in crate::host) fn address(&'static self) -> io::Result<&'static Address> {
        static MAKING: Mutex<()> = Mutex::new(());
        let _making = MAKING.lock();
        match self.address.get() {
            Some(address) => Ok(address),
            None => {
                let new = doorman::start(self)?;
                Ok(self.address.get_or_init(|| new))
            }
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    #[inline]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header: zeroed atomics, aligned, for as long as `self`.
        unsafe { self.mapping.start().cast().as_ref() }
    }

    fn at(&self, offset: u64) -> *mut u8 {
        self.mapping.start().as_ptr().wrapping_add(offset as usize)
    }

    /// Zeroes a range that nobody uses.
    fn clean(&self, range: &Range<u64>) {
        let pages = range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE;
        let kept = match range.end - range.start < RETURNED || !self.punch(&pages) {
            true => [range.clone(), 0..0],
            false => [range.start..pages.start, pages.end..range.end],
        };
        for Range { start, end } in kept {
            // SAFETY: the ranges are a piece's, which is being freed: nobody else uses them.
            unsafe { self.at(start).write_bytes(0, (end - start) as usize) };
        }
    }

    /// Gives pages back to the system: they read as zeros from then on.
    fn punch(&self, pages: &Range<u64>) -> bool {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, mode, pages.start, pages.end - pages.start).is_ok()
    }
}

/// A range of an arena, freed when it is dropped.
pub(in crate::host) struct Piece {
    arena: &'static Arena,
    range: Range<u64>,
    bytes: usize,
}

impl Piece {
    /// The address of the first byte.
    #[inline]
    pub(in crate::host) fn start(&self) -> *mut u8 {
        self.arena.at(self.range.start)
    }

    /// Where it lies in the arena.
    #[inline]
    pub(in crate::host) fn offset(&self) -> u64 {
        self.range.start
    }

    #[inline]
    pub(in crate::host) fn len(&self) -> usize {
        self.bytes
    }

    /// Takes all pages at once, which is faster than one by one. False if the system has none:
    /// touching them later would kill the process.
    fn populate(&self) -> bool {
        let length = (self.range.end - self.range.start) as usize;
        // SAFETY: the range is mapped, and the advice does not change its contents.
        let _ = unsafe { madvise(self.start().cast(), length, Advice::LinuxHugepage) };
        // SAFETY: as above.
        let populated = unsafe { madvise(self.start().cast(), length, Advice::LinuxPopulateWrite) };
        !matches!(populated, Err(Errno::NOMEM | Errno::FAULT))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.arena.clean(&self.range);
        self.arena.heap.lock().free_range(self.range.clone());
    }
}
