//! Memory that closures are using: two uses may overlap only if both read.

use std::cell::Cell;
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A use of memory, by address.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    at: Range<usize>,
    writes: bool,
}

impl Claim {
    pub(crate) fn read(part: &[u32]) -> Self {
        let at = part.as_ptr_range();
        Self { at: at.start.addr()..at.end.addr(), writes: false }
    }

    pub(crate) fn write(part: &mut [u32]) -> Self {
        Self { writes: true, ..Self::read(part) }
    }

    fn meets(&self, other: &Self) -> bool {
        let start = self.at.start.max(other.at.start);
        start < self.at.end.min(other.at.end) && (self.writes || other.writes)
    }
}

#[derive(Default)]
struct Claims {
    held: Vec<(u64, Claim)>,
    faults: Vec<String>,
}

static CLAIMS: Mutex<Claims> = Mutex::new(Claims { held: Vec::new(), faults: Vec::new() });

/// A lock orders the closures that take it, which hides missing order from ThreadSanitizer;
/// `STRESS_CLAIMS=0` disables it.
static ON: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("STRESS_CLAIMS").is_none_or(|value| value != "0"));

fn claims() -> MutexGuard<'static, Claims> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The claim of [`hold`], until it is dropped.
pub(crate) struct Held(Option<u64>);

/// Claims memory for a closure, and sleeps once in a while so that others get to overlap.
pub(crate) fn hold<const N: usize>(parts: [Claim; N]) -> Held {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let held = ON.then(|| {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut claims = claims();
        for part in &parts {
            let met = claims.held.iter().find(|(_, other)| part.meets(other));
            if let Some(fault) = met.map(|(_, other)| format!("{part:x?} meets {other:x?}")) {
                claims.faults.push(fault);
            }
        }
        claims.held.extend(parts.into_iter().map(|part| (id, part)));
        id
    });
    let held = Held(held);
    rest();
    held
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(own) = self.0 {
            claims().held.retain(|(id, _)| *id != own);
        }
    }
}

/// Records a fault.
pub(crate) fn fault(what: &str) {
    claims().faults.push(what.to_owned());
}

/// The faults since the last call.
pub(crate) fn faults() -> Vec<String> {
    std::mem::take(&mut claims().faults)
}

/// Widens race windows; mostly does nothing.
fn rest() {
    thread_local! {
        static TURN: Cell<u64> = const { Cell::new(0x9E37_79B9_7F4A_7C15) };
    }
    let turn = TURN.get().wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
    TURN.set(turn);
    match (turn >> 40) % 64 {
        0..8 => thread::yield_now(),
        8..11 => thread::sleep(Duration::from_micros((turn >> 50) % 200)),
        11 => thread::sleep(Duration::from_millis(2)),
        12..16 => (0..(turn >> 50) % 5000).for_each(|_| black_box(())),
        _ => {}
    }
}
