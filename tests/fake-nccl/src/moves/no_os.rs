//! Systems on which data cannot move.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Data cannot move here.
pub(crate) const CAN: bool = false;

/// Never exists.
pub(crate) enum Shared {}

impl Shared {
    pub(crate) fn create(_: &Path, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn open(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn start(&self) -> *mut u8 {
        match *self {}
    }

    pub(crate) fn len(&self) -> usize {
        match *self {}
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match *self {}
    }

    pub(crate) fn number(&self, _: usize) -> &AtomicU32 {
        match *self {}
    }
}

pub(crate) fn sleep_on(_: &AtomicU32, _: u32, at_most: Duration) {
    std::thread::sleep(at_most);
}

pub(crate) fn wake(_: &AtomicU32) {}

pub(crate) fn at_exit(_: extern "C" fn()) {}
