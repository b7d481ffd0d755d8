//! Features that the standard library lacks: memory that processes share, and sleeping on it.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Data can move here.
pub(crate) const CAN: bool = true;

/// A mapped file, unmapped when it is dropped.
pub(crate) struct Shared {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: an address and a length; each access to the bytes has its own proof.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Creates a file of this many zeros, which appears under its name as a whole.
    pub(crate) fn create(path: &Path, bytes: usize) -> io::Result<Self> {
        let new = path.with_extension("new");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&new)?;
        file.set_len(bytes as u64)?;
        let mapped = Self::map(&file, bytes)?;
        fs::rename(new, path)?;
        Ok(mapped)
    }

    /// Opens another rank's file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len() as usize;
        Self::map(&file, bytes)
    }

    fn map(file: &File, bytes: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (none, fd) = (ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping of a file, wherever there is room.
        let start = unsafe { libc::mmap(none, bytes, access, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), bytes })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Its contents, once nothing writes to it any more.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: this many bytes are mapped as long as `self`; a message appears only once it is
        // written.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }

    /// The number at this index.
    ///
    /// # Panics
    ///
    /// It is not entirely inside.
    pub(crate) fn number(&self, at: usize) -> &AtomicU32 {
        assert!((at + 1) * size_of::<u32>() <= self.bytes, "number {at} is behind the end");
        // SAFETY: it is inside, as checked above.
        let number = unsafe { self.start.cast::<AtomicU32>().add(at) };
        // SAFETY: a mapping is aligned to a page and lives as long as `self`; every process treats
        // these words as atomic numbers.
        unsafe { &*number }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped, and its address is not used any more.
        let _ = unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Sleeps until it is woken on this number, unless the number has changed already, and no longer
/// than `at_most`.
pub(crate) fn sleep_on(number: &AtomicU32, seen: u32, at_most: Duration) {
    let time = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: at_most.subsec_nanos().into(),
    };
    // SAFETY: both pointers are valid. The call compares and sleeps; an error counts as a wake-up.
    let _ = unsafe {
        libc::syscall(libc::SYS_futex, number.as_ptr(), libc::FUTEX_WAIT, seen, &raw const time)
    };
}

/// Wakes all threads that sleep on this number.
pub(crate) fn wake(number: &AtomicU32) {
    // SAFETY: the pointer is valid.
    let _ =
        unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
}

/// Registers an exit handler.
pub(crate) fn at_exit(work: extern "C" fn()) {
    // SAFETY: the function takes nothing, does not unwind, and stays as long as the library, which
    // is never unloaded.
    let _ = unsafe { libc::atexit(work) };
}
