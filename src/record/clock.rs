//! Times as nanoseconds since 1970, which processes of one machine share.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::backend::Backend;

/// The longest that the anchor of a device's clock may take.
const LONGEST: Duration = Duration::from_secs(1);

/// How often a clock is read beside another. A thread may lose its processor in between, so the
/// closest pair counts.
const READINGS: usize = 8;

/// A pair that is closer needs no further reading.
const CLOSE: Duration = Duration::from_micros(20);

/// How long an anchor is good for. CUDA gives the time since it as an `f32` of milliseconds, which
/// then tells microseconds apart.
const GOOD_FOR: Duration = Duration::from_secs(15);

/// Now. It never goes back within a process.
pub(super) fn now() -> u64 {
    static START: LazyLock<(u64, Instant)> = LazyLock::new(|| {
        let read = || {
            let before = Instant::now();
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let took = before.elapsed();
            Some((took, (nanos(since), before + took / 2)))
        };
        closest(read).unwrap_or_else(|| (0, Instant::now()))
    });
    let (epoch, start) = &*START;
    epoch.saturating_add(nanos(start.elapsed()))
}

/// The reading that took the least time.
fn closest<T>(mut read: impl FnMut() -> Option<(Duration, T)>) -> Option<T> {
    let mut best: Option<(Duration, T)> = None;
    for _ in 0..READINGS {
        let (took, reading) = read()?;
        if best.as_ref().is_none_or(|(least, _)| took < *least) {
            best = Some((took, reading));
        }
        if took < CLOSE {
            break;
        }
    }
    best.map(|(_, reading)| reading)
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A device's clock, anchored to the host's.
pub(super) struct Clock<B: Backend> {
    anchor: B::Time,
    at: u64,
}

impl<B: Backend> Clock<B> {
    /// Anchors it by a timestamp in an idle stream of its own, which is reached at once. `None` if
    /// the device has no times; operations are then recorded without.
    pub(super) fn new(ordinal: u32) -> Option<Self> {
        let stream = B::open(ordinal).ok()?;
        let started = Instant::now();
        let read = || {
            let before = now();
            let (point, anchor) = B::timed(&stream).ok()?;
            while B::between(&anchor, &anchor).ok()?.is_none() {
                if started.elapsed() > LONGEST {
                    return None;
                }
                B::pause(&point, Duration::from_micros(10));
            }
            let took = now() - before;
            Some((Duration::from_nanos(took), Self { anchor, at: before + took / 2 }))
        };
        closest(read)
    }

    /// Whether another should take its place for what is enqueued from now on.
    pub(super) fn is_old(&self) -> bool {
        now().saturating_sub(self.at) > nanos(GOOD_FOR)
    }

    /// When the device reached a point; `Ok(None)` if it has not.
    pub(super) fn at(&self, time: &B::Time) -> crate::Result<Option<u64>> {
        let since = B::between(&self.anchor, time)?;
        Ok(since.map(|since| self.at.saturating_add(nanos(since))))
    }
}
