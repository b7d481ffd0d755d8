//! Shared memory without a name: nothing of it is left when the last process that has it ends.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

use super::header::Header;

/// The alignment of the system's large pages.
pub(super) const LARGE_PAGE: usize = 2 << 20;

const SMALLEST: usize = 64 << 20;
const LARGEST: usize = 1 << 40;

/// Where the heap begins, after the header.
pub(super) const HEAP: usize = size_of::<Header>().next_multiple_of(LARGE_PAGE);

/// What the arenas of all processes of a machine may take of the 128 TiB that a process can map.
const ADDRESSES: usize = 1 << 46;

/// A machine may have so many processes for each core.
const PER_CORE: usize = 4;

/// The most cores for whose processes limited addresses are shared out.
const FEW: usize = 16;

/// A shared mapping that begins at a large page, with a header.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address and a size; it hands out raw pointers only.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes, a multiple of the large page.
    fn new(file: impl AsFd, len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let room = len.checked_add(LARGE_PAGE).filter(|_| len >= HEAP);
        let room = room.ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at an address that the system chooses.
        let reserved = unsafe { mmap_anonymous(ptr::null_mut(), room, ProtFlags::empty(), flags) }?;
        let before = reserved.addr().next_multiple_of(LARGE_PAGE) - reserved.addr();
        let start = reserved.wrapping_byte_add(before);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: it replaces a part of what was reserved above, which nothing uses.
        let mapped = unsafe { mmap(start, len, access, flags, file, 0) };
        let unused = match mapped {
            Ok(_) => [(reserved, before), (start.wrapping_byte_add(len), LARGE_PAGE - before)],
            Err(_) => [(reserved, room), (start, 0)],
        };
        for (start, bytes) in unused.into_iter().filter(|(_, bytes)| *bytes > 0) {
            // SAFETY: reserved above, and nothing uses it.
            let _ = unsafe { munmap(start, bytes) };
        }
        let start = NonNull::new(mapped?.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    #[inline]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping is larger than a header, aligned for it, and lives as long as `self`.
        // A header is atomics, for which every value is valid.
        unsafe { self.start.cast().as_ref() }
    }

    /// The address of `bytes` bytes of the heap from `offset` on. `None` if they do not lie inside.
    #[inline]
    pub(super) fn at(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let is_inside = offset >= HEAP && offset.checked_add(bytes)? <= self.len;
        is_inside.then(|| self.start.as_ptr().wrapping_add(offset))
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; whoever drops it keeps no pointers into it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// New memory about as large as the machine's, and small enough that a process can map those of
/// all others. Pages that nobody touches cost nothing.
pub(super) fn create() -> io::Result<(File, Mapping)> {
    let system = rustix::system::sysinfo();
    let memory = (system.totalram as usize).saturating_mul(system.mem_unit as usize);
    let limit = |of| getrlimit(of).current.map_or(usize::MAX, |limit| limit as usize);
    let mut bytes = size(memory, cores(), limit(Resource::Fsize), limit(Resource::As));
    loop {
        match sized(bytes) {
            Err(_) if bytes > SMALLEST => bytes /= 2,
            made => return made,
        }
    }
}

/// The size of an arena, at limits of this process on files and on addresses.
fn size(memory: usize, cores: usize, file: usize, addresses: usize) -> usize {
    // The other half is for everything else. Of limited addresses, smaller shares would hold
    // no buffers of real sizes.
    let limited = addresses / 2 / (PER_CORE * cores.min(FEW));
    // Growing a file beyond its limit would kill the process.
    let limit = file.min(limited).min(ADDRESSES / (PER_CORE * cores));
    let mut bytes = memory.clamp(1 << 30, LARGEST).next_power_of_two();
    while bytes > limit && bytes > SMALLEST {
        bytes /= 2;
    }
    bytes
}

/// The machine's cores, also those that this process is not bound to: other processes are.
fn cores() -> usize {
    // SAFETY: the function takes a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let own = std::thread::available_parallelism().map_or(1, NonZero::get);
    usize::try_from(online).unwrap_or(0).max(own)
}

pub(super) fn sized(bytes: usize) -> io::Result<(File, Mapping)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("typed-nccl", flags)?);
    file.set_len(bytes as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let mapping = Mapping::new(&file, bytes)?;
    Ok((file, mapping))
}

/// Maps what a peer sent, if it can never shrink: reading beyond its end would kill this process.
pub(super) fn received(file: OwnedFd) -> io::Result<Mapping> {
    let seals = fcntl_get_seals(&file)?;
    let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
    let whole = (HEAP..=LARGEST).contains(&bytes) && bytes.is_multiple_of(LARGE_PAGE);
    match seals.contains(SealFlags::SHRINK) && whole {
        true => Mapping::new(&file, bytes),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "not the memory of a peer")),
    }
}

#[cfg(test)]
mod tests {
    use super::{FEW, PER_CORE, SMALLEST, cores, size};

    const MAX: usize = usize::MAX;

    #[test]
    fn the_arenas_of_a_machine_fit_into_half_of_what_a_process_can_map() {
        for cores in [1, 2, 64, 128, 192, 1024] {
            for memory in [1 << 30, 1 << 40, 3 << 40] {
                let arenas = size(memory, cores, MAX, MAX) * PER_CORE * cores;
                assert!(arenas <= 1 << 46, "{memory} bytes, {cores} cores");
                let little = size(memory, cores, MAX, 64 << 30) * PER_CORE * cores;
                assert!(little <= 32 << 30 || cores > FEW, "{memory} bytes, {cores} cores");
            }
        }
        // A rank may have far more than its share of the memory.
        assert_eq!(size(1 << 40, 128, MAX, MAX), 128 << 30);
        assert_eq!(size(1 << 36, 2, MAX, MAX), 1 << 36);
        assert_eq!(size(1 << 36, 2, 1 << 30, MAX), 1 << 30);
        assert_eq!(size(1 << 36, 2, MAX, 12 << 30), 512 << 20);
        assert_eq!(size(1 << 36, 192, MAX, 64 << 30), 512 << 20);
        assert_eq!(size(1 << 36, 1024, 0, 0), SMALLEST);
    }

    #[test]
    fn a_process_that_is_bound_to_one_core_counts_all() {
        let all = cores();
        let bound = std::thread::spawn(|| {
            // SAFETY: an empty set of cores is all zeros.
            let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            // SAFETY: it takes no pointer. This thread alone is bound, to the core that it is on.
            let core = unsafe { libc::sched_getcpu() };
            // SAFETY: the set has room for every core of the system.
            unsafe { libc::CPU_SET(core as usize, &mut one) };
            // SAFETY: the set is as large as is said.
            let bound = unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) };
            assert_eq!(
                (bound, std::thread::available_parallelism().map_or(0, usize::from)),
                (0, 1)
            );
            cores()
        });
        assert_eq!(bound.join().expect("it counts"), all);
    }
}
