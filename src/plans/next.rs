//! A shift along nodes, with all their links.

use crate::plan;

plan! {
    /// Every rank sends `a` to the next rank, which receives it as `b`; the first rank's `b` stays
    /// as it is. From one node to the next, `a` goes in parts through all ranks of both nodes,
    /// since each has a link of its own to the network.
    ///
    /// All ranks run it; rank `r` is number `r % local` of node `r / local`. `a` and `b` have
    /// `len` elements, which `local` divides.
    ///
    /// ```
    /// use typed_nccl::plans::all_to_next;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn shift<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = all_to_next::Params { nodes: 2, local: 2, len: 2 };
    ///     let mut next = all_to_next::bind::<u32, _>(&mut comm, params)?;
    ///     let rank = comm.rank().index() as u32;
    ///     let a = comm.device().from_slice(&[rank, 10 + rank])?;
    ///     let mut b = comm.device().zeros(2)?;
    ///     next.run(&comm, all_to_next::Buffers { a: &a, b: &mut b })?;
    ///     let expected = if rank == 0 { [0, 0] } else { [rank - 1, 9 + rank] };
    ///     assert_eq!(b.to_vec()?, expected);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| shift(place.init()?))
    /// }
    /// ```
    ///
    /// On two nodes of two ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/all_to_next.txt")]
    /// ```
    pub all_to_next<T: Element>(nodes: Ranks, local: Ranks, len: usize) where len % local == 0 {
        in a: [T; len];
        inout b: [T; len];
        local leaves, arrives: [T; len / local];
        stream net;
        send a to rank.local + 1 into b;
        if rank.local == local - 1 && rank.nodes < nodes - 1 {
            group {
                for i in 0..local {
                    send a.chunk(local, i) to rank(rank.nodes * local + i) into leaves;
                }
            }
        }
        send leaves to rank.nodes + 1 into arrives;
        if rank.nodes > 0 {
            send arrives to rank(rank.nodes * local) into b.chunk(local, rank.local);
        }
        computes {
            if rank > 0 {
                b = a of rank(rank - 1);
            }
        }
    }
}
