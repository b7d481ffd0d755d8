//! All-reduces among partners at distances of powers of two.

use crate::plan;

plan! {
    /// Sums `x` over all ranks by recursive doubling: each round, two partners exchange what they
    /// have and add it, at distances 1, 2, 4 and so on. It takes the fewest rounds, and suits small
    /// `x`, since each round sends all of it. Every rank gets the same bits.
    ///
    /// All ranks run it; their number is a power of two. `x` has `len` elements.
    ///
    /// ```
    /// use typed_nccl::plans::doubling_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = doubling_all_reduce::Params { len: 2 };
    ///     let mut reduce = doubling_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 2])?;
    ///     reduce.run(&comm, doubling_all_reduce::Buffers { x: &mut x })?;
    ///     assert_eq!(x.to_vec()?, [6.0; 2]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| sum(place.init()?))
    /// }
    /// ```
    ///
    /// On four ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/doubling_all_reduce.txt")]
    /// ```
    pub doubling_all_reduce<T: Numeric>(n: Ranks in powers of 2, len: usize) {
        inout x: [T; len];
        local other: [T; len];
        stream net;
        for d in powers of 2 below n {
            send x to rank ^ d into other;
            x += other;
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// Sums `x` over all ranks by recursive halving and doubling, as Rabenseifner does: each round,
    /// two partners exchange halves of what they have and add them, until every rank has one part;
    /// then the parts are collected the same way. Each rank sends about twice `x`, in few rounds.
    /// Every rank gets the same bits.
    ///
    /// All ranks run it; their number is a power of two. `x` has `len` elements, which
    /// the number of ranks divides.
    ///
    /// ```
    /// use typed_nccl::plans::halving_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = halving_all_reduce::Params { len: 8 };
    ///     let mut reduce = halving_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 8])?;
    ///     reduce.run(&comm, halving_all_reduce::Buffers { x: &mut x })?;
    ///     assert_eq!(x.to_vec()?, [6.0; 8]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| sum(place.init()?))
    /// }
    /// ```
    ///
    /// On four ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/halving_all_reduce.txt")]
    /// ```
    pub halving_all_reduce<T: Numeric>(n: Ranks in powers of 2, len: usize)
    where
        len % n == 0,
    {
        inout x: [T; len];
        local other: [T; len];
        stream net;
        for d in (powers of 2 below n).rev() {
            let part = rank / d;
            let got = other[..len / n * d];
            send x.chunk(n / d, part ^ 1) to rank ^ d into got;
            x.chunk(n / d, part) += got;
        }
        for d in powers of 2 below n {
            let part = x.chunk(n / d, rank / d);
            send part to rank ^ d into part;
        }
        computes all_reduce(x, sum);
    }
}
