//! `all_reduce` in one kernel.

use super::call::{Launch, start};
use super::{Back, Issues, Kernels, Way, choice};
use crate::backend::{Collective, KernelWork, MOST_PIECES, NOBODY, Op, Piece, Refusal, Span, form};
use crate::collectives::Draft;
use crate::communicator::On;
use crate::error::{Call, Site};
use crate::memory::Holds;
use crate::{Error, RecordRead, ReduceOp, ReductionName, Result, World, Writable};

impl<W: World> Kernels<W> {
    /// Reduces the ranks' `send` elementwise into `recv` on every rank, as
    /// [`all_reduce`](crate::Communicator::all_reduce) of a communicator does. Every rank calls it;
    /// `send` and `recv` have one length, the same on all ranks. The host does not wait. Between
    /// two ranks, up to 256 KiB travel with a flag beside each word, and up to 4 MiB with a flag
    /// beside each block of words. Larger operations, 8-bit floats and scaled reductions use NCCL's
    /// `ncclAllReduce`.
    ///
    /// All ranks add in the order of ranks, so every rank gets the same bits, and the same as on
    /// the host. `f16` and `bf16` accumulate in `f32` and are rounded once.
    ///
    /// # Errors
    /// Those of the communicator's `all_reduce`; kernels of another communicator; a poisoned
    /// communicator.
    #[track_caller]
    pub fn all_reduce<'a, A, B, E>(
        &self,
        on: &impl Issues<W>,
        send: A,
        recv: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        A: RecordRead<'a, W::Device, Elem = E>,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let (on, send) = (on.on(), send.recorded());
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
    pub fn all_reduce_in_place<B: Writable<W::Device, Elem = E> + ?Sized, E>(
        &self,
        on: &impl Issues<W>,
        buf: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()> {
        let on = on.on();
        let draft = Draft::new(on.core, buf.dtype(), Site::caller());
        let op = draft.all_reduce_in_place(buf.span(), op.resolve(&on.core.resources));
        self.reduce(on, op)
    }

    /// [`all_reduce_in_place`](Self::all_reduce_in_place) of several buffers, each reduced
    /// separately: one launch for up to 96 small ones of one data type that follow each other.
    /// Every rank passes the same number of buffers, with the same lengths.
    ///
    /// # Errors
    /// As there. Buffers before the one at fault may have been reduced.
    #[track_caller]
    pub fn all_reduce_each_in_place<B: Writable<W::Device, Elem = E>, E>(
        &self,
        on: &impl Issues<W>,
        bufs: &mut [B],
        op: impl ReduceOp<E, W> + Copy,
    ) -> Result<()> {
        let (on, site) = (on.on(), Site::caller());
        let drafts = bufs.iter().map(|buf| {
            let draft = Draft::new(on.core, buf.dtype(), site);
            self.of(on.core)?;
            draft.all_reduce_in_place(buf.span(), op.resolve(&on.core.resources))
        });
        let mut left = bufs.len();
        let all = drafts.collect::<Result<Vec<_>>>();
        let all = all.map_err(|error| refuse(on, left, error))?;
        // Kernels have one element type.
        let same = all.chunk_by(|one, next| one.call().dtype == next.call().dtype);
        same.flat_map(|same| same.chunks(MOST_PIECES)).try_for_each(|together| {
            left -= together.len();
            self.reduce_together(on, together).map_err(|error| refuse(on, left, error))
        })
    }

    /// Enqueues operations that share one type and reduction.
    fn reduce_together(&self, on: On<'_, W>, all: &[Op<'_, Back<W>>]) -> Result<()> {
        let total = all.iter().map(|op| op.call().count).sum();
        let first = all.first().map(Op::call);
        let one = first.and_then(|call| Some((Call { count: total, ..call }, call.reduction?)));
        let Some((call, name)) = one.filter(|(call, name)| {
            let way = choice::all_reduce(call.bytes(), call.dtype, on.core.size, None);
            let is_built_in = *name != ReductionName::ScaledAdd && name.is_nccls();
            self.are_kernels && way == Some(Way::OneShot) && is_built_in
        }) else {
            let mut left = all.len();
            return all.iter().try_for_each(|op| {
                left -= 1;
                self.reduce(on, Ok(*op)).map_err(|error| refuse(on, left, error))
            });
        };
        let spans = || {
            all.iter().filter_map(|op| match op {
                Op::Collective(collective) => collective.recv,
                _ => None,
            })
        };
        let piece = |span: Span<'_, Back<W>>| {
            let (source, target, count) = (start(&span), start(&span), span.len());
            Piece { source, target, count, to: NOBODY, from: NOBODY }
        };
        let pieces: Vec<Piece> = spans().map(piece).collect();
        let uses: Vec<_> = spans().map(|span| (span.allocation(), true)).collect();
        let work = KernelWork::AllReduce(name, Way::OneShot);
        let refusals = &*vec![Refusal::Collective; pieces.len()];
        on.core.launch(on.stream, &Launch { call, work, pieces: &pieces, uses: &uses, refusals })
    }

    fn reduce(&self, on: On<'_, W>, op: Result<Op<'_, Back<W>>>) -> Result<()> {
        let op = self.of(on.core).and(op);
        let Ok(Op::Collective(Collective {
            call,
            send: Some(send),
            recv: Some(recv),
            reduction: Some(form::Reduction::BuiltIn(name)),
            ..
        })) = &op
        else {
            return on.run(Refusal::Collective, op);
        };
        let way = choice::all_reduce(call.bytes(), call.dtype, on.core.size, self.way);
        let Some(way) = way.filter(|_| self.are_kernels && name.is_nccls()) else {
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

/// Refuses what the other ranks do for this many buffers.
#[cold]
fn refuse<W: World>(on: On<'_, W>, bufs: usize, error: Error) -> Error {
    on.core.refuse(&vec![Refusal::Collective; bufs], error)
}
