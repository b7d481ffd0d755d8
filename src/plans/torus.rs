//! Halos on a torus.

use crate::plan;

plan! {
    /// A stencil step on a periodic plane that is divided into one tile per rank: each rank puts
    /// its four edges into its neighbours' halos, one-sided, while the interior is computed.
    ///
    /// All ranks run it; rank `r` has row `r / cols` and column `r % cols` of the grid. `u`, the
    /// tile, has `m` elements in any layout, since only the steps access it. An edge has `h`
    /// elements; a shorter one leaves the rest unused. The windows for edges and halos are the
    /// plan's own, so `u` can be any buffer.
    ///
    /// `interior` overlaps with the puts; `finish` runs once all four halos are there. It gets them
    /// separately: from the rank above, below, before (to the left) and behind (to the right). On
    /// GPUs the puts need NCCL 2.29 or newer.
    ///
    /// ```
    /// use typed_nccl::plans::halo_2d;
    /// use typed_nccl::{Communicator, Host, Result, Slice, SliceMut, Stream, spmd};
    ///
    /// /// A tile of one element: it becomes the sum of its four neighbours.
    /// struct Sums;
    ///
    /// type Memory<'a, Tag> = Slice<'a, f32, Host<Tag>>;
    /// type MemoryMut<'a, Tag> = SliceMut<'a, f32, Host<Tag>>;
    ///
    /// impl<Tag> halo_2d::Steps<f32, Host<Tag>> for Sums {
    ///     fn pack(
    ///         &mut self,
    ///         u: Memory<'_, Tag>,
    ///         mut edges: MemoryMut<'_, Tag>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         stream.launch((&u, &mut edges), |(u, edges), ()| edges.fill(u[0]))
    ///     }
    ///
    ///     fn interior(&mut self, _: MemoryMut<'_, Tag>, _: &Stream<Host<Tag>>) -> Result<()> {
    ///         Ok(()) // The tile is all edges.
    ///     }
    ///
    ///     fn finish(
    ///         &mut self,
    ///         mut u: MemoryMut<'_, Tag>,
    ///         from_above: Memory<'_, Tag>,
    ///         from_below: Memory<'_, Tag>,
    ///         from_before: Memory<'_, Tag>,
    ///         from_behind: Memory<'_, Tag>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         let halo = (&mut u, &from_above, &from_below, &from_before, &from_behind);
    ///         stream.launch(halo, |(u, above, below, before, behind), ()| {
    ///             u[0] = above[0] + below[0] + before[0] + behind[0];
    ///         })
    ///     }
    /// }
    ///
    /// fn steps<Tag>(mut comm: Communicator<Host<Tag>>) -> Result<()> {
    ///     let params = halo_2d::Params { rows: 2, cols: 2, m: 1, h: 1 };
    ///     let mut halo = halo_2d::bind::<f32, _>(&mut comm, params)?;
    ///     let mut u = comm.device().from_slice(&[1.0])?;
    ///     for _ in 0..3 {
    ///         halo.run(&comm, halo_2d::Buffers { u: &mut u }, &mut Sums)?;
    ///     }
    ///     assert_eq!(u.to_vec()?, [64.0]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| steps(place.init()?))
    /// }
    /// ```
    ///
    /// On a grid of 2 by 2:
    ///
    /// ```text
    #[doc = include_str!("timelines/halo_2d.txt")]
    /// ```
    pub halo_2d<T: Element>(rows: Ranks, cols: Ranks, m: usize, h: usize) {
        inout u: [T; m];
        local window edges: [T; 4 * h];
        local swapped window halo: [T; 4 * h];
        signal top, bottom, left, right;
        stream net, compute;
        let above = (rank.rows - 1) % rows;
        let below = (rank.rows + 1) % rows;
        let before = (rank.cols - 1) % cols;
        let behind = (rank.cols + 1) % cols;
        /// Copies the tile's edges: the first row, the last one, the first column, the last one.
        run pack(read u, write edges) on compute;
        on net after compute {
            put edges.chunk(4, 0) to above into halo.chunk(4, 1) signal bottom;
            put edges.chunk(4, 1) to below into halo.chunk(4, 0) signal top;
            put edges.chunk(4, 2) to before into halo.chunk(4, 3) signal right;
            put edges.chunk(4, 3) to behind into halo.chunk(4, 2) signal left;
        }
        /// Computes the part that needs no halo.
        run interior(update u) on compute;
        wait bottom from below, top from above, right from behind, left from before on net;
        let from_above = halo.chunk(4, 0);
        let from_below = halo.chunk(4, 1);
        let from_before = halo.chunk(4, 2);
        let from_behind = halo.chunk(4, 3);
        /// Computes the rest of the tile from the neighbours' edges.
        run finish(
            update u, read from_above, read from_below, read from_before, read from_behind,
        ) on compute after net;
    }
}
