//! all_reduce in one kernel.

use super::call::{Launch, start};
use super::{Back, Issues, Kernels, choice};
use crate::backend::{Collective, KernelWork, NOBODY, Op, Piece, Reduction, Refusal};
use crate::collectives::Draft;
use crate::communicator::On;
use crate::error::Site;
use crate::memory::SameDtype;
use crate::{Readable, ReduceOp, Result, World, Writable};

impl<W: World> Kernels<W> {
    /// Reduces the ranks' `send` elementwise into `recv` on every rank, as
    /// [`all_reduce`](crate::Communicator::all_reduce) of a communicator does. Every rank calls it; `send` and
    /// `recv` have one length, the same on all ranks. The host does not wait. Up to 256 KiB between two ranks
    /// a flag travels beside each word, up to 4 MiB with each block of them; what is larger, of 8-bit floats,
    /// or scaled is NCCL's `ncclAllReduce`.
    ///
    /// All ranks add in the order of ranks, so every rank gets the same bits, as on the host: `f16` and
    /// `bf16` accumulate in `f32` and are rounded once.
    ///
    /// # Errors
    /// Refusals, as there; kernels of another communicator; a poisoned communicator.
    #[track_caller]
    pub fn all_reduce<A, B>(
        &self,
        on: &impl Issues<W>,
        send: &A,
        recv: &mut B,
        op: impl ReduceOp<A::Elem, W>,
    ) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let on = on.on();
        let draft = Draft::new(on.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = draft.all_reduce(send.span(), recv.span(), op.resolve(&on.core.resources));
        self.reduce(on, op)
    }

    /// [`all_reduce`](Self::all_reduce) in one buffer.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn all_reduce_in_place<B: Writable<W::Device>>(
        &self,
        on: &impl Issues<W>,
        buf: &mut B,
        op: impl ReduceOp<B::Elem, W>,
    ) -> Result<()> {
        let on = on.on();
        let draft = Draft::new(on.core, buf.dtype(), Site::caller());
        let op = draft.all_reduce_in_place(buf.span(), op.resolve(&on.core.resources));
        self.reduce(on, op)
    }

    fn reduce(&self, on: On<'_, W>, op: Result<Op<'_, Back<W>>>) -> Result<()> {
        let op = self.of(on.core).and(op);
        let Ok(Op::Collective(Collective {
            call,
            send: Some(send),
            recv: Some(recv),
            reduction: Some(Reduction::BuiltIn(name)),
            ..
        })) = &op
        else {
            return on.run(Refusal::Collective, op);
        };
        let way = choice::all_reduce(call.bytes(), call.dtype, on.core.size, self.way);
        let Some(way) = way.filter(|_| self.are_kernels) else {
            return on.run(Refusal::Collective, op);
        };
        let piece = Piece {
            source: start(send),
            target: start(recv),
            count: call.count,
            to: NOBODY,
            from: NOBODY,
        };
        let launch = Launch {
            call: *call,
            work: KernelWork::AllReduce(*name, way),
            pieces: &[piece],
            uses: &[(send.allocation(), false), (recv.allocation(), true)],
            refusals: &[Refusal::Collective],
        };
        on.core.launch(on.stream, &launch)
    }
}
