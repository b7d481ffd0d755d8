//! Tokens to experts and back.

use crate::plan;

plan! {
    /// Exchanges tokens with experts and back, for a mixture of experts: each rank has an expert,
    /// and sends each rank the tokens for the expert there.
    ///
    /// All ranks run it. `tokens` has `n * capacity` elements: its `q`-th part of `capacity`
    /// elements goes to rank `q`. `result` has the experts' answers in the same places. For
    /// tokens of several elements, `capacity` counts elements. Routing and padding are up to the
    /// caller.
    ///
    /// ```
    /// use typed_nccl::plans::expert_exchange;
    /// use typed_nccl::{Communicator, Host, Result, Slice, SliceMut, Stream, spmd};
    ///
    /// /// Multiplies by its number.
    /// struct Expert(f32);
    ///
    /// impl<Tag> expert_exchange::Steps<f32, Host<Tag>> for Expert {
    ///     fn experts(
    ///         &mut self,
    ///         inbox: Slice<'_, f32, Host<Tag>>,
    ///         mut outbox: SliceMut<'_, f32, Host<Tag>>,
    ///         stream: &Stream<Host<Tag>>,
    ///     ) -> Result<()> {
    ///         let by = self.0;
    ///         stream.launch((&inbox, &mut outbox), move |(inbox, outbox), ()| {
    ///             for (answer, token) in outbox.iter_mut().zip(inbox) {
    ///                 *answer = by * token;
    ///             }
    ///         })
    ///     }
    /// }
    ///
    /// fn route<Tag>(mut comm: Communicator<Host<Tag>>) -> Result<()> {
    ///     let params = expert_exchange::Params { capacity: 1 };
    ///     let mut exchange = expert_exchange::bind::<f32, _>(&mut comm, params)?;
    ///     let tokens = comm.device().from_slice(&[1.0; 4])?;
    ///     let mut result = comm.device().zeros(4)?;
    ///     let buffers = expert_exchange::Buffers { tokens: &tokens, result: &mut result };
    ///     let mut expert = Expert(comm.rank().index() as f32);
    ///     exchange.run(&comm, buffers, &mut expert)?;
    ///     assert_eq!(result.to_vec()?, [0.0, 1.0, 2.0, 3.0]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| route(place.init()?))
    /// }
    /// ```
    ///
    /// On three ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/expert_exchange.txt")]
    /// ```
    pub expert_exchange<T: Element>(n: Ranks, capacity: usize) {
        in tokens: [T; n * capacity];
        local inbox, outbox: [T; n * capacity];
        out result: [T; n * capacity];
        stream net, compute;
        all_to_all(tokens -> inbox) on net;
        /// This rank's expert: `capacity` tokens from each rank in turn, to be answered in the same
        /// places.
        run experts(read inbox, write outbox) on compute after net;
        all_to_all(outbox -> result) on net after compute;
    }
}
