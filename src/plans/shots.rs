//! All-reduces in which all ranks exchange with all others at once.

use crate::plan;

plan! {
    /// Sums `x` over all ranks in one shot: every rank sends `x` to all others and adds up what it
    /// gets, in the order of the ranks, so that all get the same bits. A single round, for small
    /// `x`.
    ///
    /// All ranks run it. `x` has `len` elements; the plan's own memory has that many for each rank.
    ///
    /// ```
    /// use typed_nccl::plans::one_shot_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = one_shot_all_reduce::Params { len: 2 };
    ///     let mut reduce = one_shot_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 2])?;
    ///     reduce.run(&comm, one_shot_all_reduce::Buffers { x: &mut x })?;
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
    #[doc = include_str!("timelines/one_shot_all_reduce.txt")]
    /// ```
    pub one_shot_all_reduce<T: Numeric>(n: Ranks, len: usize) {
        inout x: [T; len];
        local all: [T; n * len];
        stream net;
        group {
            for i in 0..n {
                send x to (rank + i) % n into all.chunk(n, rank);
            }
        }
        x = all.chunk(n, 0);
        for i in 1..n {
            x += all.chunk(n, i);
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// Sums `x` over all ranks in two shots: every rank gets its part of `x` from all others, adds
    /// it up, and sends the sum to all others. Two rounds, in which each rank sends about twice
    /// `x`. Every rank gets the same bits.
    ///
    /// All ranks run it. `x` has `len` elements, which the number of ranks divides.
    ///
    /// ```
    /// use typed_nccl::plans::two_shot_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = two_shot_all_reduce::Params { len: 6 };
    ///     let mut reduce = two_shot_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 6])?;
    ///     reduce.run(&comm, two_shot_all_reduce::Buffers { x: &mut x })?;
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
    #[doc = include_str!("timelines/two_shot_all_reduce.txt")]
    /// ```
    pub two_shot_all_reduce<T: Numeric>(n: Ranks, len: usize) where len % n == 0 {
        inout x: [T; len];
        local got: [T; len];
        stream net;
        let own = x.chunk(n, rank);
        group {
            for i in 1..n {
                send x.chunk(n, (rank + i) % n) to (rank + i) % n into got.chunk(n, rank);
            }
        }
        for i in 1..n {
            own += got.chunk(n, (rank + i) % n);
        }
        group {
            for i in 1..n {
                send own to (rank + i) % n into own;
            }
        }
        computes all_reduce(x, sum);
    }
}
