//! An all-reduce around a ring.

use crate::plan;

plan! {
    /// Sums `x` over all ranks around a ring: each rank adds up one part of `x` as it comes around,
    /// then the sums go around. Each rank sends about twice `x`, whatever the number of ranks.
    ///
    /// All ranks run it. `x` has `len` elements, which the number of ranks divides.
    /// `comm.all_reduce` does the same with the algorithm that NCCL chooses; start from this plan
    /// if the schedule matters.
    ///
    /// ```
    /// use typed_nccl::plans::ring_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = ring_all_reduce::Params { len: 6 };
    ///     let mut reduce = ring_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 6])?;
    ///     reduce.run(&comm, ring_all_reduce::Buffers { x: &mut x })?;
    ///     assert_eq!(x.to_vec()?, [3.0; 6]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(3, |place| sum(place.init()?))
    /// }
    /// ```
    ///
    /// On three ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/ring_all_reduce.txt")]
    /// ```
    pub ring_all_reduce<T: Numeric>(n: Ranks, len: usize) where len % n == 0 {
        inout x: [T; len];
        local got: [T; len / n];
        stream net;
        for i in 0..n - 1 {
            send x.chunk(n, (rank - i) % n) to (rank + 1) % n into got;
            x.chunk(n, (rank - i - 1) % n) += got;
        }
        for i in 0..n - 1 {
            let part = x.chunk(n, (rank - i + 1) % n);
            send part to (rank + 1) % n into part;
        }
        computes all_reduce(x, sum);
    }
}
