//! Issuing: the only path from a validated operation to the backend.

use std::slice;

use super::{Back, CallConfig, Core, On, PerCall, Transfers};
use crate::backend::{AllocKind, Backend, Half, Op, Operations, RankOps, Refusal, Span, Transfer};
use crate::error::{Call, Error, NotRegistered, OtherDevice, SelfTransfer, Site};
use crate::memory::Booking;
use crate::stream::StreamCore;
use crate::{AsRank, Buffer, Element, Result, World, trace};

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// Issues a collective's draft, or records its refusal.
    ///
    /// Most calls repeat earlier ones: the communicator is healthy, the stream carried its last
    /// operations, and no other stream used the buffers. Their devices were then compared by an
    /// earlier call and there is nothing to wait for, so a few stores replace a [`Booking`].
    /// Operations are passed by value, also to the slow path, so that the fast path keeps them in
    /// registers.
    #[inline]
    pub(crate) fn run(&self, refusal: Refusal, draft: Result<Op<'_, Back<W>>>) -> Result<()> {
        self.run_where::<false>(refusal, draft)
    }

    /// [`run`](Self::run) for a collective that writes everything it reads.
    #[inline]
    pub(crate) fn run_in_place(
        &self,
        refusal: Refusal,
        draft: Result<Op<'_, Back<W>>>,
    ) -> Result<()> {
        self.run_where::<true>(refusal, draft)
    }

    #[inline]
    fn run_where<const IN_PLACE: bool>(
        &self,
        refusal: Refusal,
        draft: Result<Op<'_, Back<W>>>,
    ) -> Result<()> {
        let op = match draft {
            Ok(op) => op,
            Err(error) => return Err(self.core.refuse_one(refusal, error)),
        };
        let op = match self.config.config() {
            None => op,
            Some(config) => match config.apply(op) {
                Ok(op) => op,
                Err(error) => return Err(self.core.refuse_one(refusal, error)),
            },
        };
        let (core, stream) = (self.core, self.stream);
        let _span = trace::enqueue((&core.health, core.size), slice::from_ref(&op));
        if let Op::Collective(collective) = op
            && let Some(comm) = core.comm_on(stream)
        {
            // Recording the write covers the read.
            let read = collective.send.filter(|_| !IN_PLACE).map(Span::allocation);
            let (written, scalar) = (collective.recv.map(Span::allocation), collective.scalar());
            let operands = [read, written, scalar];
            if operands.into_iter().flatten().all(|memory| memory.order.is_alone(stream)) {
                let owned = stream.owned();
                // SAFETY: a draft has checked lengths, ranks and offsets; for a bound plan, the
                // plan's checks have, and its memory was compared. All earlier uses of the memory
                // were on this stream, which orders this one after them.
                let issued =
                    unsafe { <Back<W> as Operations>::issue_again(comm, owned.raw(), collective) };
                let number = owned.number();
                read.inspect(|memory| memory.order.read_again(number));
                scalar.inspect(|memory| memory.order.read_again(number));
                written.inspect(|memory| memory.order.write_again(number));
                return issued;
            }
        }
        core.issue_first(stream, op, refusal)
    }

    /// Issues operations as one group. `refusals` describe the same operations in case it is
    /// refused.
    pub(crate) fn issue(&self, ops: &mut [Op<'_, Back<W>>], refusals: &[Refusal]) -> Result<()> {
        let _span = trace::enqueue((&self.core.health, self.core.size), ops);
        self.core.issue(self.stream, ops, refusals)
    }

    /// Allocates a buffer on the root, and none elsewhere. A root out of range is left for the
    /// operation to refuse.
    #[track_caller]
    pub(crate) fn on_root<T: Element>(
        &self,
        root: impl AsRank,
        len: usize,
    ) -> Result<Option<Buffer<T, W::Device>>> {
        if self.core.number(root) != Some(self.core.rank.index()) {
            return Ok(None);
        }
        match Buffer::alloc(self.core.ordinal, len, AllocKind::Plain) {
            Ok(buffer) => Ok(Some(buffer)),
            Err(error) => Err(self.core.refuse(&[Refusal::Collective], error)),
        }
    }
}

/// One communicator's share of the operations that a thread issues together.
pub(crate) struct Together<'p, 'a, B: Backend> {
    pub(crate) core: &'p Core<B>,
    pub(crate) stream: &'p StreamCore<B>,
    pub(crate) ops: &'p mut [Op<'a, B>],
}

impl<'a, B: Backend> Together<'_, 'a, B> {
    /// Fails if the communicator cannot issue them.
    pub(crate) fn check(&self) -> Result<()> {
        self.core.comm()?;
        self.core.can_be_one(self.ops)?;
        self.core.misplaced(self.stream, self.ops).map_or(Ok(()), Err)
    }

    /// Orders the operations after all earlier uses of their memory.
    fn book(&self) -> Result<(RankOps<'_, 'a, B>, Booking<'_, B, &[Op<'a, B>]>)> {
        let &Self { core, stream, ref ops, .. } = self;
        let part = RankOps { comm: core.comm()?, stream: stream.raw(), ops };
        Ok((part, core.book(stream, ops)?))
    }
}

impl<B: Backend> Core<B> {
    /// Slow path: issues an operation that differs from earlier ones.
    #[cold]
    fn issue_first(
        &self,
        stream: &StreamCore<B>,
        mut op: Op<'_, B>,
        refusal: Refusal,
    ) -> Result<()> {
        self.issue(stream, slice::from_mut(&mut op), slice::from_ref(&refusal))
    }

    /// Compares devices, orders memory between streams, and issues.
    pub(crate) fn issue(
        &self,
        stream: &StreamCore<B>,
        ops: &mut [Op<'_, B>],
        refusals: &[Refusal],
    ) -> Result<()> {
        let comm = self.comm()?;
        if let Some(error) = self.misplaced(stream, ops) {
            return Err(self.refuse(refusals, error));
        }
        if stream.records() {
            return self.record(ops, refusals);
        }
        self.catch_up(ops);
        let ops = &*ops;
        let booking = self.book(stream, ops)?;
        let recorded = self.journal.as_ref().map(|journal| (journal, journal.begins(stream, ops)));
        // SAFETY: a draft has checked lengths, ranks and offsets; for a bound plan, the plan's
        // checks have, and its memory was compared. The booking makes the stream wait for the
        // earlier uses of the memory.
        let issued = unsafe { B::issue(comm, stream.raw(), ops) };
        if let Some((journal, number)) = recorded {
            journal.enqueued(stream, number, &issued);
        }
        drop(booking);
        self.issued(stream, ops);
        issued
    }

    #[cold]
    fn record(&self, ops: &[Op<'_, B>], refusals: &[Refusal]) -> Result<()> {
        match &mut *self.recording.borrow_mut() {
            Some(recording) => recording.operations(self.comm()?, ops, refusals),
            None => Ok(()),
        }
    }

    /// Issues checked operations of several communicators as one group.
    pub(crate) fn issue_together(parts: &mut [Together<'_, '_, B>]) -> Result<()> {
        parts.iter_mut().for_each(|part| part.core.catch_up(part.ops));
        let parts = &*parts;
        let _spans = trace::enqueue_all(
            parts.iter().map(|part| ((&*part.core.health, part.core.size), &*part.ops)),
        );
        let booked: Result<Vec<_>> = parts.iter().map(Together::book).collect();
        // A device or a communicator has just failed, so the ranks of the others would wait.
        let booked = booked.inspect_err(|error| {
            parts.iter().for_each(|part| part.core.health.fail(error.clone()));
        });
        let (ready, bookings): (Vec<_>, Vec<_>) = booked?.into_iter().unzip();
        let begins = |Together { core, stream, ops }: &_| {
            core.journal.as_ref().map(|journal| (journal, *stream, journal.begins(stream, ops)))
        };
        let recorded: Vec<_> = parts.iter().filter_map(begins).collect();
        // SAFETY: as in `issue`, for each communicator.
        let issued = unsafe { B::issue_together(&ready) };
        for (journal, stream, number) in recorded {
            journal.enqueued(stream, number, &issued);
        }
        drop(bookings);
        for Together { core, stream, ops, .. } in parts {
            core.issued(stream, ops);
        }
        issued
    }

    /// Checks that operations can form one group.
    pub(crate) fn can_be_one(&self, ops: &[Op<'_, B>]) -> Result<()> {
        if ops.iter().any(|op| matches!(op, Op::Collective(one) if one.config.is_some())) {
            CallConfig::together(ops)?;
        }
        self.self_transfers(ops)
    }

    /// Refuses transfers of this rank with itself whose halves are not both in the group, which
    /// NCCL would wait for forever, or differ in length, which NCCL does not check.
    pub(crate) fn self_transfers(&self, ops: &[Op<'_, B>]) -> Result<()> {
        let of = |half: Half| {
            ops.iter().filter_map(move |op| match op {
                Op::Transfer(t) if t.peer == self.rank && t.half == half => Some(t.call.count),
                _ => None,
            })
        };
        if of(Half::SendTo).eq(of(Half::RecvFrom)) {
            return Ok(());
        }
        let site = ops.iter().map(Op::call).next().map_or_else(Site::caller, |call| call.site);
        Err(Error::from(SelfTransfer {
            rank: self.own(),
            sends: of(Half::SendTo).collect(),
            recvs: of(Half::RecvFrom).collect(),
            site,
        }))
    }

    /// Orders operations after earlier uses of their memory.
    fn book<'s, 'o, 'a>(
        &self,
        stream: &'s StreamCore<B>,
        ops: &'o [Op<'a, B>],
    ) -> Result<Booking<'s, B, &'o [Op<'a, B>]>> {
        // The device failed, so the other ranks would wait for this one.
        let booking = Booking::new(stream, ops);
        let booking = booking.inspect_err(|error| self.health.fail(error.clone()))?;
        self.note(stream);
        Ok(booking)
    }

    /// Records the effects of operations that were issued.
    fn issued(&self, stream: &StreamCore<B>, ops: &[Op<'_, B>]) {
        if stream.is_captured() {
            return;
        }
        self.carried_by(stream);
        // A signal may announce writes to any window. Record the use only after enqueueing the
        // wait, so that waiting on this stream covers the signal.
        if ops.iter().any(|op| matches!(op, Op::Wait(_))) {
            self.resources.windows_written(stream);
        }
    }

    /// Checks what the types do not: devices, captured steps and registrations.
    fn misplaced(&self, stream: &StreamCore<B>, ops: &[Op<'_, B>]) -> Option<Error> {
        let in_a_step = || match ops {
            [op, ..] if stream.is_captured() => {
                let call = op.call();
                stream.in_a_step(call.operation.name(), call.site)
            }
            _ => None,
        };
        self.other_device(stream, ops).or_else(in_a_step).or_else(|| self.unregistered(ops))
    }

    /// Finds memory that this communicator's transfers do not accept. All ranks apply the same
    /// rule, so a message never has one registered and one unregistered side.
    fn unregistered(&self, ops: &[Op<'_, B>]) -> Option<Error> {
        if self.config.transfers == Transfers::Any {
            return None;
        }
        ops.iter().find_map(|op| {
            let Op::Transfer(Transfer { call, span, .. }) = op else { return None };
            let bytes = span.offset()..span.offset() + call.bytes();
            // NCCL does not look at the memory of empty messages.
            if bytes.is_empty() || self.resources.knows(span.allocation(), &bytes) {
                return None;
            }
            let (operation, site) = (call.operation.name(), call.site);
            let (name, is_nccls) = (self.health.name(), span.allocation().is_nccls());
            Some(NotRegistered { operation, name, is_nccls, site }.into())
        })
    }

    /// Finds memory or a stream of another device.
    fn other_device(&self, stream: &StreamCore<B>, ops: &[Op<'_, B>]) -> Option<Error> {
        let of = |call: Call, what, found| {
            let (kind, needed) = (B::KIND, self.ordinal);
            let (operation, site) = (call.operation.name(), call.site);
            Some(OtherDevice { operation, what, kind, found, needed, site }.into())
        };
        for op in ops {
            let (send, recv) = match op {
                Op::Collective(collective) => (collective.send, collective.recv),
                Op::Transfer(transfer) => (Some(transfer.span), None),
                Op::Put(_) | Op::Signal(_) | Op::Wait(_) => (None, None),
            };
            let ordinal = |span: Span<'_, B>| span.allocation().ordinal();
            let is_other = |&found: &u32| found != self.ordinal;
            if is_other(&stream.ordinal()) {
                return of(op.call(), "stream", stream.ordinal());
            }
            if let Some(found) = send.map(ordinal).filter(is_other) {
                return of(op.call(), "send buffer", found);
            }
            if let Some(found) = recv.map(ordinal).filter(is_other) {
                return of(op.call(), "receive buffer", found);
            }
        }
        None
    }
}
