//! A broadcast and an all-reduce along a tree.

use crate::plan;

plan! {
    /// Broadcasts rank 0's `x` along a binomial tree: each round, every rank that has it sends it.
    ///
    /// All ranks run it. `x` has `len` elements. `comm.broadcast` does the same with
    /// NCCL's own algorithm; start from this plan if the shape of the tree matters.
    ///
    /// ```
    /// use typed_nccl::plans::tree_broadcast;
    /// use typed_nccl::{Communicator, Device, Result, launch};
    ///
    /// fn settings<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = tree_broadcast::Params { len: 2 };
    ///     let mut broadcast = tree_broadcast::bind::<i32, _>(&mut comm, params)?;
    ///     let mine = comm.rank().index() as i32;
    ///     let mut x = comm.device().from_slice(&[7 + mine, 8 + mine])?;
    ///     broadcast.run(&comm, tree_broadcast::Buffers { x: &mut x })?;
    ///     assert_eq!(x.to_vec()?, [7, 8]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     launch!(settings)
    /// }
    /// ```
    ///
    /// On four ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/tree_broadcast.txt")]
    /// ```
    pub tree_broadcast<T: Element>(n: Ranks, len: usize) {
        inout x: [T; len];
        stream net;
        for d in powers of 2 below n {
            if rank < d {
                send x to rank + d into x;
            }
        }
        computes broadcast(x, root = 0);
    }
}

plan! {
    /// Sums `x` over all ranks along a binomial tree: each round, half of the ranks that are left
    /// send what they have to another one, which adds it, until rank 0 has the sum; then the sum
    /// goes back. For any number of ranks, with few messages. Every rank gets the same
    /// bits.
    ///
    /// All ranks run it. `x` has `len` elements.
    ///
    /// ```
    /// use typed_nccl::plans::tree_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = tree_all_reduce::Params { len: 2 };
    ///     let mut reduce = tree_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 2])?;
    ///     reduce.run(&comm, tree_all_reduce::Buffers { x: &mut x })?;
    ///     assert_eq!(x.to_vec()?, [3.0; 2]);
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
    #[doc = include_str!("timelines/tree_all_reduce.txt")]
    /// ```
    pub tree_all_reduce<T: Numeric>(n: Ranks, len: usize) {
        inout x: [T; len];
        local other: [T; len];
        stream net;
        for d in powers of 2 below n {
            if rank % (2 * d) == d {
                send x to rank - d into other;
            }
            if rank % (2 * d) == 0 && rank + d < n {
                x += other;
            }
        }
        for d in (powers of 2 below n).rev() {
            if rank % (2 * d) == 0 {
                send x to rank + d into x;
            }
        }
        computes all_reduce(x, sum);
    }
}
