//! A shift around a ring.

use crate::plan;

plan! {
    /// Every rank sends `a` to the next rank around the ring, and receives `b` from the previous
    /// one.
    ///
    /// Each rank sends and receives in one group, so that ranks do not wait for each other in turn.
    /// On one rank it sends to itself.
    ///
    /// All ranks run it. `a` and `b` have `len` elements.
    ///
    /// ```
    /// use typed_nccl::plans::ring_exchange;
    /// use typed_nccl::{Communicator, Device, Result, launch};
    ///
    /// fn shift<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = ring_exchange::Params { len: 4 };
    ///     let mut ring = ring_exchange::bind::<f32, _>(&mut comm, params)?;
    ///     let a = comm.device().from_slice(&[comm.rank().index() as f32; 4])?;
    ///     let mut b = comm.device().zeros(4)?;
    ///     ring.run(&comm, ring_exchange::Buffers { a: &a, b: &mut b })?;
    ///     assert_eq!(b.to_vec()?, [comm.ring(-1).index() as f32; 4]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     launch!(shift)
    /// }
    /// ```
    ///
    /// On three ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/ring_exchange.txt")]
    /// ```
    pub ring_exchange<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; len];
        stream net;
        send a to (rank + 1) % n into b;
    }
}
