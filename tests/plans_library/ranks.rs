//! The same body on each of several ranks, several times and with several timings.

use typed_nccl::plan::Timing;
use typed_nccl::{Buffer, Communicator, Device, Element, Result, World};

/// How often a plan runs, without anything between the runs.
pub(crate) const RUNS: usize = 4;

/// Each timing with which a plan is tried; every rank shakes differently. Late operations take
/// nearly all of the tests' time, so many ranks shake once.
pub(crate) fn timings<W: World>(comm: &Communicator<W>) -> Vec<Timing> {
    let rank = comm.rank().index() as u64;
    let shaken = |seed: u64| Timing::Shaken(seed * 1000 + rank);
    let mut all = vec![Timing::Early, shaken(1)];
    all.extend((comm.size() <= 8).then(|| shaken(2)));
    all
}

/// For another type of elements, whose operations wait for the same ones.
pub(crate) fn early<W: World>(_: &Communicator<W>) -> [Timing; 1] {
    [Timing::Early]
}

/// The same on each of `n` host ranks.
macro_rules! ranks {
    ($n:expr, |$comm:ident| $body:block) => {
        typed_nccl::spmd::<typed_nccl::Host>($n, |place| {
            #[allow(unused_mut, reason = "not every plan needs it")]
            let mut $comm = place.init()?;
            $body
            $comm.finish()
        })
        .expect("the ranks run, and verify their own numbers")
    };
}
pub(crate) use ranks;

/// One buffer for each list of values.
pub(crate) fn buffers<D: Device, T: Element>(
    device: &D,
    values: impl IntoIterator<Item = Vec<T>>,
) -> Result<Vec<Buffer<T, D>>> {
    values.into_iter().map(|values| device.from_slice(&values)).collect()
}
