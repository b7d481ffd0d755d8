//! An all-reduce that minimises traffic between nodes.

use crate::plan;

plan! {
    /// Sums `x` over all ranks in three steps: within each node, between the nodes, within each
    /// node. Only a `local`-th of `x` crosses between nodes.
    ///
    /// All ranks run it; rank `r` is number `r % local` of node `r / local`. `x` has `len`
    /// elements, of which each rank of a node handles an equal part: `local` divides `len`. Binding
    /// creates the communicators of each node, and of the ranks with the same number on all nodes.
    /// On a single machine, or where NCCL knows the network, a plain `comm.all_reduce` is probably
    /// as good: measure.
    ///
    /// ```
    /// use typed_nccl::plans::hierarchical_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = hierarchical_all_reduce::Params { nodes: 2, local: 2, len: 6 };
    ///     let mut reduce = hierarchical_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 6])?;
    ///     reduce.run(&comm, hierarchical_all_reduce::Buffers { x: &mut x })?;
    ///     assert_eq!(x.to_vec()?, [6.0; 6]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| sum(place.init()?))
    /// }
    /// ```
    ///
    /// On two nodes of two ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/hierarchical_all_reduce.txt")]
    /// ```
    pub hierarchical_all_reduce<T: Numeric>(nodes: Ranks, local: Ranks, len: usize)
    where
        len % local == 0,
    {
        comm node along local;
        comm rail along nodes;
        inout x: [T; len];
        stream net;
        let part = x.chunk(local, rank.local);
        node.reduce_scatter(x -> part, sum);
        rail.all_reduce(part, sum);
        node.all_gather(part -> x);
    }
}
