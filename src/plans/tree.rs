//! A broadcast and all-reduces along trees.

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

plan! {
    /// Sums `x` over all ranks along two binary trees, as NCCL does: each half of `x` goes along
    /// one of them. Ranks that have children in one tree have none in the other, but for the first
    /// of an odd number; so all send about twice `x`, in few rounds. Each half goes in `pieces`:
    /// while one goes up, the next one follows. For any number of ranks. Every rank gets the
    /// same bits.
    ///
    /// All ranks run it. `x` has `len` elements, of which each half is divided by `pieces`.
    ///
    /// ```
    /// use typed_nccl::plans::double_tree_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = double_tree_all_reduce::Params { len: 8, pieces: 2 };
    ///     let mut reduce = double_tree_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 8])?;
    ///     reduce.run(&comm, double_tree_all_reduce::Buffers { x: &mut x })?;
    ///     assert_eq!(x.to_vec()?, [10.0; 8]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(5, |place| sum(place.init()?))
    /// }
    /// ```
    ///
    /// On four ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/double_tree_all_reduce.txt")]
    /// ```
    pub double_tree_all_reduce<T: Numeric>(n: Ranks, len: usize, pieces: usize)
    where
        len % (2 * pieces) == 0,
    {
        inout x: [T; len];
        local left[i in 0..2], right[i in 0..2]: [T; len / (2 * pieces)];
        stream net;
        // The second tree is the first one, with each rank in the place of the rank before it.
        for i in 0..pieces {
            for d in powers of 2 below n {
                // Half of the places that are left send to the one before or after.
                group {
                    for t in 0..2 {
                        let at = (rank - t) % n;
                        let part = x.chunk(2 * pieces, t * pieces + i);
                        if at % (4 * d) == d && at + d < n {
                            send part to (rank + d) % n into left[t];
                        } else if at % (2 * d) == d {
                            send part to (rank - d) % n into right[t];
                        }
                    }
                }
                for t in 0..2 {
                    let at = (rank - t) % n;
                    let part = x.chunk(2 * pieces, t * pieces + i);
                    if at % (4 * d) == 2 * d {
                        part += left[t];
                    }
                    // The last place that is left may have a child after it too.
                    let more = n - at;
                    if at % (2 * d) == 0 && more > d && (at % (4 * d) > 0 || more <= 2 * d) {
                        part += right[t];
                    }
                }
            }
        }
        for i in 0..pieces {
            for d in (powers of 2 below n).rev() {
                group {
                    for t in 0..2 {
                        let at = (rank - t) % n;
                        let part = x.chunk(2 * pieces, t * pieces + i);
                        if at % (4 * d) == 2 * d {
                            send part to (rank - d) % n into part;
                        }
                        let more = n - at;
                        if at % (2 * d) == 0 && more > d && (at % (4 * d) > 0 || more <= 2 * d) {
                            send part to (rank + d) % n into part;
                        }
                    }
                }
            }
        }
        computes all_reduce(x, sum);
    }
}
