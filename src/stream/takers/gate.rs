//! A gate that closes once: a thread that has entered delays the end of what is behind it until it
//! leaves. Entering takes one locked instruction, leaving none.
//!
//! Each stream has a `Way` of its own, written by its thread alone: to enter, it swaps in that it
//! is inside, then reads the gate. The closing thread writes the gate, then reads each way by
//! writing back what it reads, so the two read-modify-writes are ordered. If the swap comes first,
//! the closing thread sees somebody inside. If it comes second, it reads what was written back, and
//! thereby sees the closed gate.

use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use super::atomic::{AtomicBool, AtomicU64};

pub(super) struct Gate(AtomicBool);

/// The number of a stream's last use, and whether its thread is inside.
pub(super) struct Way(AtomicU64);

/// Whether the thread was already inside when it entered.
pub(super) enum Before {
    Outside,
    Inside,
}

/// The bit beside the number.
const INSIDE: u64 = 1 << 63;

impl Gate {
    pub(super) fn open() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Enters; `None` if the gate is closed. Only the stream's thread calls this.
    #[inline]
    pub(super) fn enter(&self, way: &Way) -> Option<Before> {
        // Relaxed: only this thread changes it.
        let before = way.0.load(Relaxed);
        // Acquire: the closed gate, from a thread that read the way before. Release: to later
        // readers, the work that the number stands for.
        way.0.swap(before | INSIDE, AcqRel);
        // Relaxed: the swap has brought what must be seen.
        if self.0.load(Relaxed) {
            // Release: as above.
            way.0.store(before, Release);
            return None;
        }
        Some(if before & INSIDE == 0 { Before::Outside } else { Before::Inside })
    }

    /// Closes the gate. No thread is inside any more once [every way](Way::is_entered) has been
    /// seen empty.
    pub(super) fn close(&self) {
        // Relaxed: reading the ways publishes it.
        self.0.store(true, Relaxed);
    }
}

impl Way {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Leaves; `used` is the number of the stream's last use. Only the stream's thread calls this.
    #[inline]
    pub(super) fn leave(&self, before: &Before, used: u64) {
        if let Before::Outside = before {
            // Release: a reader of the number also sees its work in the stream.
            self.0.store(used, Release);
        }
    }

    /// Whether the thread is inside, as seen after closing the gate.
    pub(super) fn is_entered(&self) -> bool {
        // It writes what it reads. Release: the closed gate, to a later swap. Acquire: the work of
        // a thread that has left.
        self.0.fetch_or(0, AcqRel) & INSIDE != 0
    }

    /// The number of the last use that has left; 0 for none.
    pub(super) fn used(&self) -> u64 {
        // Acquire: the work that the number stands for.
        self.0.load(Acquire) & !INSIDE
    }
}
