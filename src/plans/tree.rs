//! A broadcast along a tree.

use crate::plan;

plan! {
    /// Broadcasts rank 0's `x` along a binomial tree: each round, every rank that has it sends it.
    ///
    /// All ranks run it, at most 16. `x` has `len` elements. `comm.broadcast` does the same with
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
    pub tree_broadcast<T: Element>(n: Ranks in 1..=16, len: usize) {
        inout x: [T; len];
        stream net;
        for d in [1, 2, 4, 8] {
            if rank < d {
                send x to rank + d into x;
            }
        }
        computes broadcast(x, root = 0);
    }
}
