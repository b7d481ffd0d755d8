//! When the operations of a run start, on the host backend.

use std::time::Duration;

use crate::{Device, Result, Stream};

/// How long a late operation is held back: long beside what the host backend's operations take.
const LATE: Duration = Duration::from_millis(1);

/// When the operations of a run start, as far as streams, events and signals leave it open.
///
/// GPUs have their own timing; this is for tests on the host backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timing {
    /// As soon as they can.
    #[default]
    Early,
    /// Each as soon as it can or as late as it can, as numbers from this seed say: late is after all that
    /// does not wait for it. What is right for every seed that was tried does not rest on luck with time.
    Shaken(u64),
}

impl Timing {
    /// Holds the stream back, if it is the next operation's turn to be late.
    pub(super) fn hold<D: Device>(&mut self, stream: &Stream<D>) -> Result<()> {
        let Self::Shaken(state) = self else { return Ok(()) };
        // SplitMix64: every seed is a good one.
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        if (bits ^ (bits >> 31)).is_multiple_of(2) {
            return Ok(());
        }
        stream.launch((), |(), _| std::thread::sleep(LATE))
    }
}
