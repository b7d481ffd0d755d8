//! This process's memory that peers map.
//!
//! The heap's bookkeeping is private, so no peer can damage it. Free memory is zero: a piece is
//! cleaned when it is freed. The pages of large pieces go back to the system at once, those of
//! others once they add up, because new pages cost more than clean ones.

use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use range_alloc::RangeAllocator;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use super::doorman::{self, Address};
use super::header::{Header, MAGIC};
use super::map::{self, HEAP, LARGE_PAGE, Mapping};
use crate::lock::Mutex;

/// Where pieces begin, and so the alignment of all: two cache lines.
const ALIGN: u64 = 128;

/// From this size on pieces begin at large pages.
const LARGE: usize = 2 * LARGE_PAGE;

/// How many bytes of freed pieces keep their pages.
const KEPT: u64 = 64 << 20;

const PAGE: u64 = 4096;

static ARENA: OnceLock<Arena> = OnceLock::new();

/// Memory of this process that peers map.
pub(in crate::host) struct Arena {
    file: File,
    mapping: Mapping,
    id: u64,
    heap: Mutex<Heap>,
    address: OnceLock<Address>,
}

struct Heap {
    ranges: RangeAllocator<u64>,
    /// Freed since pages last went back to the system.
    kept: u64,
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
        let ranges = RangeAllocator::new(HEAP as u64..mapping.len() as u64);
        let heap = Mutex::new(Heap { ranges, kept: 0 });
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
        let range = self.heap.lock().ranges.allocate_range_aligned(length, align).ok()?;
        let piece = Piece { arena: self, range, is_exposed: AtomicBool::new(false) };
        (bytes < LARGE || piece.populate()).then_some(piece)
    }

    /// Where an address lies in it.
    #[inline]
    pub(in crate::host) fn offset_of(&self, address: *const u8) -> Option<u64> {
        let offset = address.addr().checked_sub(self.mapping.start().addr().get())?;
        (HEAP..self.mapping.len()).contains(&offset).then_some(offset as u64)
    }

    /// The address of `bytes` bytes from `offset` on, if they lie inside.
    pub(in crate::host) fn reached(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        self.mapping.at(offset, bytes)
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
        self.mapping.header()
    }

    fn at(&self, offset: u64) -> *mut u8 {
        self.mapping.start().as_ptr().wrapping_add(offset as usize)
    }

    fn free(&self, range: Range<u64>) {
        let length = range.end - range.start;
        let pages = range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE;
        let returned = length >= LARGE as u64 && self.punch(&pages);
        let dirty = match returned {
            true => [range.start..pages.start, pages.end..range.end],
            false => [range.clone(), 0..0],
        };
        for Range { start, end } in dirty {
            // SAFETY: the ranges are a piece's, which is being freed: nobody else uses them.
            unsafe { self.at(start).write_bytes(0, (end - start) as usize) };
        }
        let heap = &mut *self.heap.lock();
        heap.ranges.free_range(range);
        heap.kept += if returned { 0 } else { length };
        if heap.kept > KEPT {
            heap.kept = 0;
            self.trim(&heap.ranges);
        }
    }

    /// Gives the pages of a range back, and never uses its addresses again.
    fn give_up(&self, range: &Range<u64>) {
        self.punch(&(range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE));
    }

    /// Gives the pages of all free memory back. Nothing is allocated meanwhile.
    fn trim(&self, ranges: &RangeAllocator<u64>) {
        let mut free = HEAP as u64;
        let end = self.mapping.len() as u64;
        for used in ranges.allocated_ranges().chain(iter::once(end..end)) {
            self.punch(&(free.next_multiple_of(PAGE)..used.start / PAGE * PAGE));
            free = used.end;
        }
    }

    /// Gives pages back to the system: they read as zeros from then on.
    fn punch(&self, pages: &Range<u64>) -> bool {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        pages.is_empty()
            || fallocate(&self.file, mode, pages.start, pages.end - pages.start).is_ok()
    }
}

/// A range of an arena, freed when it is dropped.
pub(in crate::host) struct Piece {
    arena: &'static Arena,
    range: Range<u64>,
    is_exposed: AtomicBool,
}

impl Piece {
    /// From now on peers may write to it at any time, even once it is freed.
    pub(in crate::host) fn expose(&self) {
        self.is_exposed.store(true, Relaxed);
    }

    /// The address of the first byte.
    #[inline]
    pub(in crate::host) fn start(&self) -> *mut u8 {
        self.arena.at(self.range.start)
    }

    /// Where it lies in the arena.
    #[cfg(test)]
    pub(in crate::host) fn offset(&self) -> u64 {
        self.range.start
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
        match self.is_exposed.load(Relaxed) {
            true => self.arena.give_up(&self.range),
            false => self.arena.free(self.range.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Arena, HEAP, LARGE, LARGE_PAGE, Piece, map};

    const ROOM: usize = 128 << 20;

    fn arena() -> &'static Arena {
        let made = map::sized(HEAP + ROOM).and_then(Arena::new);
        Box::leak(Box::new(made.expect("there is memory")))
    }

    fn len(piece: &Piece) -> usize {
        (piece.range.end - piece.range.start) as usize
    }

    fn fill(piece: &Piece, byte: u8) {
        // SAFETY: it is the test's alone.
        unsafe { piece.start().write_bytes(byte, len(piece)) };
    }

    fn is_all(piece: &Piece, byte: u8) -> bool {
        // SAFETY: it is the test's alone, and nothing writes to it meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(piece.start(), len(piece)) };
        bytes.iter().all(|other| *other == byte)
    }

    /// Pages that the system has for an arena, in bytes.
    fn resident(arena: &Arena) -> u64 {
        rustix::fs::fstat(arena.file()).expect("it is open").st_blocks as u64 * 512
    }

    #[test]
    fn what_peers_may_still_write_to_is_not_used_again() {
        let arena = arena();
        for length in [100, LARGE] {
            let before = resident(arena);
            let [exposed, other] = [(); 2].map(|()| arena.alloc(length, 8).expect("there is room"));
            fill(&exposed, 7);
            exposed.expose();
            let (given_up, free) = (exposed.range.clone(), other.range.clone());
            drop((exposed, other));
            assert!(resident(arena) <= before + super::PAGE, "{length} bytes");
            let [again, next] = [(); 2].map(|()| arena.alloc(length, 8).expect("there is room"));
            assert_eq!(again.range, free);
            assert!(next.range.start >= given_up.end && is_all(&next, 0), "{length} bytes");
        }
    }

    #[test]
    fn pieces_are_zeroed_and_aligned_when_new_and_again() {
        let arena = arena();
        for round in 0..3 {
            for (length, align, aligned) in [
                (0, 1, 128),
                (5, 1, 128),
                (1000, 4096, 4096),
                (LARGE - 1, 8, 128),
                (LARGE + 5, 8, LARGE_PAGE),
            ] {
                let piece = arena.alloc(length, align).expect("there is room");
                assert!(len(&piece) >= length && piece.start().addr().is_multiple_of(aligned));
                assert!(is_all(&piece, 0), "{length} in round {round}");
                fill(&piece, 0xff);
                assert_eq!(arena.offset_of(piece.start()), Some(piece.offset()));
            }
        }
    }

    #[test]
    fn neighbours_do_not_overlap_and_freed_room_is_one_again() {
        let arena = arena();
        for _ in 0..2 {
            let pieces: Vec<_> = std::iter::from_fn(|| arena.alloc(1 << 20, 1)).collect();
            assert_eq!(pieces.len(), ROOM >> 20);
            for (number, piece) in pieces.iter().enumerate() {
                fill(piece, number as u8);
            }
            let kept = |(number, piece)| is_all(piece, number as u8);
            assert!(pieces.iter().enumerate().all(kept));
        }
        assert!(arena.alloc(ROOM, 1).is_some(), "the room is in parts");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let arena = arena();
        let sizes = [(ROOM + 1, 1), (usize::MAX, 1), (1, 1 << 40), (1, 1 << 63), (1, 3), (1, 0)];
        for (length, align) in sizes {
            assert!(arena.alloc(length, align).is_none(), "{length} at {align}");
        }
        let all = arena.alloc(ROOM, 1).expect("just as much as there is");
        assert!(arena.alloc(1, 1).is_none());
        drop(all);
        assert!(arena.alloc(1, 1).is_some());
    }

    #[test]
    fn addresses_outside_have_no_offset() {
        let arena = arena();
        let first = arena.alloc(1, 1).expect("there is room");
        assert_eq!(arena.offset_of(first.start()), Some(HEAP as u64));
        assert_eq!(arena.offset_of(first.start().wrapping_sub(1)), None);
        assert_eq!(arena.offset_of(first.start().wrapping_add(ROOM)), None);
        assert_eq!(arena.offset_of(std::ptr::null()), None);
    }

    #[test]
    fn freed_pages_go_back_to_the_system() {
        let arena = arena();
        let small: Vec<_> = (0..100).filter_map(|_| arena.alloc(1 << 20, 1)).collect();
        small.iter().for_each(|piece| fill(piece, 1));
        assert!(resident(arena) >= 100 << 20);
        drop(small);
        assert!(resident(arena) < 64 << 20, "{} bytes are left", resident(arena));
        let large = arena.alloc(ROOM / 2, 1).expect("there is room");
        fill(&large, 1);
        let before = resident(arena);
        drop(large);
        assert!(before - resident(arena) >= ROOM as u64 / 2);
    }

    #[test]
    fn nobody_can_shrink_it() {
        let arena = arena();
        let file = arena.file();
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(1 << 40).is_err());
        let mut start = [0; 8];
        (&*file).read_exact(&mut start).expect("it can be read");
        assert_eq!(u64::from_ne_bytes(start), super::MAGIC);
    }
}
