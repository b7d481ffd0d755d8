//! A gate that is closed once: who goes in keeps what is behind it from ending until it has gone out. One
//! locked instruction to go in, none to go out.
//!
//! Each stream has a way of its own, which its thread alone changes: it swaps in that it is inside, and looks
//! at the gate then. Who closes the gate looks at the way then, and writes back what it reads there, so that
//! looking and going in have an order. Where the swap is first, somebody is seen inside. Where looking is first
//! and nobody is seen, the swap reads what was written back, and with that comes the closed gate.

use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use super::atomic::{AtomicBool, AtomicU64};

pub(super) struct Gate(AtomicBool);

/// The number of a stream's last use, and whether its thread is inside.
pub(super) struct Way(AtomicU64);

/// Whether the thread was inside already, when it came in.
pub(super) enum Before {
    Outside,
    Inside,
}

/// Beside the number.
const INSIDE: u64 = 1 << 63;

impl Gate {
    pub(super) fn open() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Goes in; none if it is closed. By the stream's thread.
    #[inline]
    pub(super) fn enter(&self, way: &Way) -> Option<Before> {
        // Relaxed: nobody else changes it.
        let before = way.0.load(Relaxed);
        // Acquire: the closed gate, from who looked at the way before. Release: to who looks after, what the
        // number is of.
        way.0.swap(before | INSIDE, AcqRel);
        // Relaxed: the swap brought what has to be seen.
        if self.0.load(Relaxed) {
            // Release: as above.
            way.0.store(before, Release);
            return None;
        }
        Some(if before & INSIDE == 0 { Before::Outside } else { Before::Inside })
    }

    /// Nobody is inside from here on, once [nobody is on any of the ways](Way::is_entered).
    pub(super) fn close(&self) {
        // Relaxed: looking at the ways publishes it.
        self.0.store(true, Relaxed);
    }
}

impl Way {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Goes out; the stream's number `used` is the last use. By the stream's thread.
    #[inline]
    pub(super) fn leave(&self, before: &Before, used: u64) {
        if let Before::Outside = before {
            // Release: who sees the number has what it is of in its stream.
            self.0.store(used, Release);
        }
    }

    /// Whether the thread is inside: for who has closed the gate.
    pub(super) fn is_entered(&self) -> bool {
        // It writes what it reads. Release: the closed gate, for a swap that comes after. Acquire: what a thread
        // did that has gone out.
        self.0.fetch_or(0, AcqRel) & INSIDE != 0
    }

    /// The number of the last use that is over for the host; 0 for none.
    pub(super) fn used(&self) -> u64 {
        // Acquire: what the number is of.
        self.0.load(Acquire) & !INSIDE
    }
}
