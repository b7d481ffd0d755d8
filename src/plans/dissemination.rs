//! A barrier of signals.

use crate::plan;

plan! {
    /// A barrier in stream order: work after it on a rank's stream starts once all work before it
    /// on the streams of all ranks has ended. Unlike with `comm.barrier()`, no host waits.
    ///
    /// All ranks run it, at most 16. In round `k` each rank signals the rank `2^k` ahead and waits
    /// for the rank `2^k` behind; after the last round it has a signal, directly or not, from every
    /// rank. On GPUs signals need NCCL 2.29 or newer.
    ///
    /// ```
    /// use typed_nccl::plans::barrier;
    /// use typed_nccl::{Communicator, Device, Result, launch};
    ///
    /// fn phases<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let mut all_here = barrier::bind(&mut comm)?;
    ///     for _ in 0..3 {
    ///         // Whatever the phase enqueues on `comm.stream()`, then:
    ///         all_here.run(&comm)?;
    ///     }
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     launch!(phases)
    /// }
    /// ```
    ///
    /// On four ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/barrier.txt")]
    /// ```
    pub barrier(n: Ranks in 1..=16) {
        // Signals need a symmetric window on their communicator: the plan brings one.
        local window ground: [u8; 1];
        signal round_1, round_2, round_4, round_8;
        stream net;
        if n > 1 {
            signal round_1 to (rank + 1) % n;
            wait round_1 from (rank - 1) % n;
        }
        if n > 2 {
            signal round_2 to (rank + 2) % n;
            wait round_2 from (rank - 2) % n;
        }
        if n > 4 {
            signal round_4 to (rank + 4) % n;
            wait round_4 from (rank - 4) % n;
        }
        if n > 8 {
            signal round_8 to (rank + 8) % n;
            wait round_8 from (rank - 8) % n;
        }
    }
}
