//! A pipeline's forward pass.

use crate::plan;

plan! {
    /// A pipeline's forward pass: micro-batches move from rank to rank, each a stage of the
    /// model.
    ///
    /// All ranks run it, two or more. `inp` and `out` are `mb` buffers of `k` elements. The caller
    /// fills `inp` on the first rank; other ranks receive it from the previous one. `out` of the
    /// last rank is the result.
    ///
    /// A stage computes one micro-batch while others are in transit. A step waits for the memory
    /// that it reads, so no further order is declared.
    ///
    /// ```
    /// use typed_nccl::plans::pipeline_forward;
    /// use typed_nccl::{Communicator, Host, Result, Slice, SliceMut, Stream};
    ///
    /// /// A stage that adds one.
    /// struct Stage;
    ///
    /// impl<Tag> pipeline_forward::Steps<f32, Host<Tag>> for Stage {
    ///     fn fwd(
    ///         &mut self,
    ///         _: usize,
    ///         inp: Slice<'_, f32, Host<Tag>>,
    ///         mut out: SliceMut<'_, f32, Host<Tag>>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         stream.launch((&inp, &mut out), |(inp, out), ()| out[0] = inp[0] + 1.0)
    ///     }
    /// }
    ///
    /// fn forward<Tag>(mut comm: Communicator<Host<Tag>>) -> Result<()> {
    ///     let params = pipeline_forward::Params { mb: 3, k: 1 };
    ///     let mut forward = pipeline_forward::bind::<f32, _>(&mut comm, params)?;
    ///     let (mut inp, mut out) = (Vec::new(), Vec::new());
    ///     for i in 0..3 {
    ///         inp.push(comm.device().from_slice(&[(10 * i) as f32])?);
    ///         out.push(comm.device().zeros(1)?);
    ///     }
    ///     let buffers = pipeline_forward::Buffers { inp: &mut inp, out: &mut out };
    ///     forward.run(&comm, buffers, &mut Stage)?;
    ///     let stages = comm.rank().index() + 1;
    ///     assert_eq!(out[2].to_vec()?, [(20 + stages) as f32]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     Host::spmd(4, |place| forward(place.init()?)).map(drop)
    /// }
    /// ```
    ///
    /// Two micro-batches on three ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/pipeline_forward.txt")]
    /// ```
    pub pipeline_forward<T: Element>(n: Ranks in 2.., mb: usize, k: usize) {
        inout inp[i in 0..mb]: [T; k];
        out out[i in 0..mb]: [T; k];
        stream net, compute;
        for i in 0..mb {
            sequence {
                /// Runs this rank's stage on micro-batch `i`.
                run fwd(i, read inp[i], write out[i]) on compute;
                send out[i] to rank + 1 into inp[i] on net;
            }
        }
    }
}
