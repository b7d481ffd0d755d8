//! Halos on a ring.

use crate::plan;

plan! {
    /// A stencil step on a periodic line that is divided into one part per rank: neighbours put
    /// their edges into each other's halo, one-sided, while the interior is computed.
    ///
    /// All ranks run it. `u` has `m` elements: a halo of `h`, the rank's own `m - 2 * h`, a halo of
    /// `h`. It is a pair of symmetric windows that swap after every run
    /// ([`Swapped`](crate::plan::Swapped)): a run reads one and fills the other, so no neighbour
    /// overwrites memory that is still being read. Before the first run the caller fills the rank's
    /// own part of the current one, then waits until all ranks have done so: `comm.barrier()`.
    ///
    /// `interior` needs no halo and overlaps with the puts; `edges` runs once both halos are there.
    /// On GPUs the puts need NCCL 2.29 or newer.
    ///
    /// ```
    /// use typed_nccl::plan::Swapped;
    /// use typed_nccl::plans::halo_1d;
    /// use typed_nccl::{Communicator, Host, Result, Slice, SliceMut, Stream};
    ///
    /// /// Each element becomes the sum of its neighbours.
    /// struct Sums;
    ///
    /// /// `u` begins one element before `next` and ends one behind it.
    /// fn sums(u: &[f32], next: &mut [f32]) {
    ///     for (next, near) in next.iter_mut().zip(u.windows(3)) {
    ///         *next = near[0] + near[2];
    ///     }
    /// }
    ///
    /// impl<Tag> halo_1d::Steps<f32, Host<Tag>> for Sums {
    ///     fn interior(
    ///         &mut self,
    ///         u: Slice<'_, f32, Host<Tag>>,
    ///         mut u_next: SliceMut<'_, f32, Host<Tag>>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         stream.launch((&u, &mut u_next), |(u, next), ()| sums(u, next))
    ///     }
    ///
    ///     fn edges(
    ///         &mut self,
    ///         u: Slice<'_, f32, Host<Tag>>,
    ///         mut low_next: SliceMut<'_, f32, Host<Tag>>,
    ///         mut high_next: SliceMut<'_, f32, Host<Tag>>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         stream.launch((&u, &mut low_next, &mut high_next), |(u, low, high), ()| {
    ///             sums(&u[..3], low);
    ///             sums(&u[u.len() - 3..], high);
    ///         })
    ///     }
    /// }
    ///
    /// fn steps<Tag>(mut comm: Communicator<Host<Tag>>) -> Result<()> {
    ///     let mut halo = halo_1d::bind::<f32, _>(&mut comm, halo_1d::Params { m: 10, h: 1 })?;
    ///     let (mut now, next) = (comm.window(10)?, comm.window(10)?);
    ///     now.copy_from(&[1.0; 10])?;
    ///     let mut u = Swapped::new(now, next);
    ///     comm.barrier()?;
    ///     for _ in 0..3 {
    ///         // Nothing waits between two runs.
    ///         halo.run(&comm, halo_1d::Buffers { u: &mut u }, &mut Sums)?;
    ///     }
    ///     assert_eq!(u.current().slice(1..9).to_vec()?, [8.0; 8]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     Host::spmd(4, |place| steps(place.init()?)).map(drop)
    /// }
    /// ```
    ///
    /// On three ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/halo_1d.txt")]
    /// ```
    pub halo_1d<T: Element>(n: Ranks, m: usize, h: usize) where m >= 4 * h {
        inout swapped window u: [T; m];
        signal lo, hi;
        stream net, compute;
        let left = (rank - 1) % n;
        let right = (rank + 1) % n;
        /// Computes the elements that need no halo: the rank's own part of the next `u`, without
        /// `h` elements at either end.
        run interior(read u[h..m - h], write u.next[2 * h..m - 2 * h]) on compute;
        put u[h..2 * h] to left into u[m - h..] signal hi on net;
        put u[m - 2 * h..m - h] to right into u[..h] signal lo on net;
        wait hi from right, lo from left on net;
        let low = u.next[h..2 * h];
        let high = u.next[m - 2 * h..m - h];
        /// Computes the first and the last `h` elements of the rank's own part of the next `u`.
        run edges(read u, write low, write high) on compute after net;
    }
}
