//! All-reduces by collectives of parts of the ranks.

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
        computes all_reduce(x, sum);
    }
}

plan! {
    /// Sums `x` over a grid of ranks: along the rows, then along the columns, each time leaving
    /// every rank with a part; then the parts are collected along the columns and the rows. On a
    /// torus, or on nodes in several levels, each direction's links carry only what they have to.
    ///
    /// All ranks run it; rank `r` has row `r / cols` and column `r % cols`. `x` has `len` elements,
    /// which `rows * cols` divides.
    ///
    /// ```
    /// use typed_nccl::plans::torus_all_reduce;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn sum<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = torus_all_reduce::Params { rows: 2, cols: 2, len: 4 };
    ///     let mut reduce = torus_all_reduce::bind::<f32, _>(&mut comm, params)?;
    ///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 4])?;
    ///     reduce.run(&comm, torus_all_reduce::Buffers { x: &mut x })?;
    ///     assert_eq!(x.to_vec()?, [6.0; 4]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| sum(place.init()?))
    /// }
    /// ```
    ///
    /// On a grid of 2 by 2:
    ///
    /// ```text
    #[doc = include_str!("timelines/torus_all_reduce.txt")]
    /// ```
    pub torus_all_reduce<T: Numeric>(rows: Ranks, cols: Ranks, len: usize)
    where
        len % (rows * cols) == 0,
    {
        comm row along cols;
        comm col along rows;
        inout x: [T; len];
        stream net;
        let part = x.chunk(cols, rank.cols);
        let piece = part.chunk(rows, rank.rows);
        row.reduce_scatter(x -> part, sum);
        col.reduce_scatter(part -> piece, sum);
        col.all_gather(piece -> part);
        row.all_gather(part -> x);
        computes all_reduce(x, sum);
    }
}
