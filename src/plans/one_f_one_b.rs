//! A pipeline's forward and backward pass.

use crate::plan;

plan! {
    /// A pipeline's training step, one forward, one backward (1F1B): after a warm-up each rank
    /// alternates, so that it keeps the activations of at most as many micro-batches as there are
    /// ranks behind it, instead of all.
    ///
    /// All ranks run it; for 2 to 8 or 16 ranks, and the listed numbers of micro-batches, at least
    /// as many as ranks. Each of the four arrays is `mb` buffers of `k` elements. The caller fills
    /// `act` on the first rank, and `grad` on the last with the loss's inputs, such as the labels.
    /// On other ranks the neighbours send them. `out` goes to the next rank; `gin`, the gradient of
    /// `act`, goes to the previous one.
    ///
    /// Receiving one micro-batch and sending another share a group at both ends: without it the
    /// ranks would wait for each other in a cycle, and the plan would not compile.
    ///
    /// ```
    /// use typed_nccl::plans::one_f1b;
    /// use typed_nccl::{Communicator, Host, Result, Slice, SliceMut, Stream, spmd};
    ///
    /// /// A stage that doubles; the loss is half of the squared distance to a label.
    /// struct Stage {
    ///     is_last: bool,
    /// }
    ///
    /// type Memory<'a, Tag> = Slice<'a, f32, Host<Tag>>;
    /// type MemoryMut<'a, Tag> = SliceMut<'a, f32, Host<Tag>>;
    ///
    /// impl<Tag> one_f1b::Steps<f32, Host<Tag>> for Stage {
    ///     fn fwd(
    ///         &mut self,
    ///         _: usize,
    ///         act: Memory<'_, Tag>,
    ///         mut out: MemoryMut<'_, Tag>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         stream.launch((&act, &mut out), |(act, out), ()| out[0] = 2.0 * act[0])
    ///     }
    ///
    ///     fn bwd(
    ///         &mut self,
    ///         _: usize,
    ///         _: Memory<'_, Tag>,
    ///         out: Memory<'_, Tag>,
    ///         grad: Memory<'_, Tag>,
    ///         mut gin: MemoryMut<'_, Tag>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         let is_last = self.is_last;
    ///         stream.launch((&out, &grad, &mut gin), move |(out, grad, gin), ()| {
    ///             gin[0] = 2.0 * if is_last { out[0] - grad[0] } else { grad[0] };
    ///         })
    ///     }
    /// }
    ///
    /// fn step<Tag>(mut comm: Communicator<Host<Tag>>) -> Result<()> {
    ///     const MB: usize = 6;
    ///     let mut step = one_f1b::bind::<f32, _>(&mut comm, one_f1b::Params { mb: MB, k: 1 })?;
    ///     let device = comm.device();
    ///     let memory = |value: f32| -> Result<Vec<_>> {
    ///         (0..MB).map(|_| device.from_slice(&[value])).collect()
    ///     };
    ///     let (mut act, mut out) = (memory(1.0)?, memory(0.0)?);
    ///     let (mut grad, mut gin) = (memory(15.0)?, memory(0.0)?);
    ///     let buffers =
    ///         one_f1b::Buffers { act: &mut act, out: &mut out, grad: &mut grad, gin: &mut gin };
    ///     let mut stage = Stage { is_last: comm.rank().index() + 1 == comm.size() };
    ///     step.run(&comm, buffers, &mut stage)?;
    ///     if comm.rank().index() == 0 {
    ///         // Four stages make 16 of 1, the loss wants 15, and the slope is 16.
    ///         assert_eq!(gin[5].to_vec()?, [16.0]);
    ///     }
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| step(place.init()?))
    /// }
    /// ```
    ///
    /// Four micro-batches on three ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/one_f1b.txt")]
    /// ```
    pub one_f1b<T: Element>(
        n: Ranks in [2, 3, 4, 5, 6, 7, 8, 16],
        mb: usize in [2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32],
        k: usize,
    )
    where
        mb >= n,
    {
        inout act[i in 0..mb]: [T; k];
        out out[i in 0..mb]: [T; k];
        inout grad[i in 0..mb]: [T; k];
        out gin[i in 0..mb]: [T; k];
        stream net, compute;
        // How far this rank runs ahead of its backward pass.
        let w = n - 1 - rank;
        for i in 0..w {
            recv act[i] from rank - 1 on net;
            /// Runs this rank's stage forward on micro-batch `i`.
            run fwd(i, read act[i], write out[i]) on compute;
            send out[i] to rank + 1 on net;
        }
        recv act[w] from rank - 1 on net;
        for j in 0..mb - w {
            run fwd(w + j, read act[w + j], write out[w + j]) on compute;
            group {
                send out[w + j] to rank + 1 on net;
                recv grad[j] from rank + 1 on net;
            }
            /// Runs this rank's stage backward on micro-batch `j`, given its input, its output, and
            /// the gradient of the output, or on the last rank the content of `grad`.
            run bwd(j, read act[j], read out[j], read grad[j], write gin[j]) on compute;
            group {
                send gin[j] to rank - 1 on net;
                if j + 1 < mb - w {
                    recv act[w + j + 1] from rank - 1 on net;
                }
            }
        }
        for j in mb - w..mb {
            recv grad[j] from rank + 1 on net;
            run bwd(j, read act[j], read out[j], read grad[j], write gin[j]) on compute;
            send gin[j] to rank - 1 on net;
        }
    }
}
