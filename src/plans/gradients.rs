//! Gradients, bucket by bucket.

use crate::plan;

plan! {
    /// Averages gradients over all ranks, bucket by bucket: while one bucket is reduced, backward
    /// computes the next one.
    ///
    /// All ranks run it. `g` is `k` buffers; buffer `i` has `sizes[i]` elements. Backward computes
    /// the last bucket first, in the order in which it reaches the layers. Once all are averaged,
    /// `apply` reads them.
    ///
    /// ```
    /// use typed_nccl::plan::Slices;
    /// use typed_nccl::plans::grad_sync;
    /// use typed_nccl::{Communicator, Host, Result, SliceMut, Stream, spmd};
    ///
    /// struct Model {
    ///     rank: usize,
    /// }
    ///
    /// impl<Tag> grad_sync::Steps<f32, Host<Tag>> for Model {
    ///     fn backward(
    ///         &mut self,
    ///         i: usize,
    ///         mut g: SliceMut<'_, f32, Host<Tag>>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         let gradient = (self.rank + 10 * i) as f32;
    ///         stream.launch(&mut g, move |g, ()| g.fill(gradient))
    ///     }
    ///
    ///     fn apply(
    ///         &mut self,
    ///         g: Slices<'_, f32, Host<Tag>>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         for bucket in g.iter() {
    ///             stream.launch(&bucket, |bucket, ()| assert_eq!(bucket[0] % 10.0, 1.5))?;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn train<Tag>(mut comm: Communicator<Host<Tag>>) -> Result<()> {
    ///     let params = grad_sync::Params { k: 2, sizes: &[1024, 64] };
    ///     let mut sync = grad_sync::bind::<f32, _>(&mut comm, params)?;
    ///     let mut g = [comm.device().zeros(1024)?, comm.device().zeros(64)?];
    ///     let mut model = Model { rank: comm.rank().index() };
    ///     for _ in 0..3 {
    ///         sync.run(&comm, grad_sync::Buffers { g: &mut g }, &mut model)?;
    ///     }
    ///     assert_eq!(g[1].to_vec()?, [11.5; 64]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| train(place.init()?))
    /// }
    /// ```
    ///
    /// Three buckets on two ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/grad_sync.txt")]
    /// ```
    pub grad_sync<T: Float>(n: Ranks, k: usize, sizes: [usize; k]) {
        inout g[i in 0..k]: [T; sizes[i]];
        stream compute, net;
        for i in (0..k).rev() {
            /// Enqueues the computation of the gradients of bucket `i`.
            run backward(i, write g[i]) on compute;
            all_reduce(g[i], avg) on net after compute;
        }
        /// Uses the averages of all buckets.
        run apply(read g) on compute after net;
    }
}
