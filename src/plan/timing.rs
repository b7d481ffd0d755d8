//! Start times of a run's operations on the host backend.

use std::time::Duration;

use crate::{Device, Result, Stream};

/// How long a late operation is delayed: long compared with operations of the host backend.
const LATE: Duration = Duration::from_millis(1);

/// When the operations of a run start, as far as streams, events and signals leave it open.
///
/// GPUs have their own timing; this is for tests on the host backend.
///
/// ```
/// # use typed_nccl::{Host, Seat, plan::{Bound, Timing}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// /// Many runs, with chances of timing that the host would hardly have by itself.
/// fn shake(plan: &mut Bound<Host>, mut run: impl FnMut(&mut Bound<Host>)) {
///     for seed in 0..100 {
///         plan.set_timing(Timing::Shaken(seed));
///         run(plan);
///     }
/// }
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timing {
    /// As soon as possible.
    #[default]
    Early,
    /// Each as early or as late as possible, at random from this seed: a late one starts after
    /// everything that does not wait for it. A program that is right for every seed tried does not
    /// depend on lucky timing.
    Shaken(u64),
}

impl Timing {
    /// Delays the stream if the next operation is to be late.
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
