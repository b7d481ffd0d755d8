//! Drafts: validation that turns a call into an operation, or into the reason why not.
//!
//! Nothing here sends, books or waits: `On` issues a draft at once, a group records it.

use crate::backend::{Backend, Collective, Op, Reduction, Span};
use crate::communicator::Core;
use crate::error::{
    BadLength, BadRange, Call, CollectiveName, Error, NoBuffer, NotReducible, Operation,
    OtherDType, Overflow, Site,
};
use crate::{AsRank, DType, Rank, ReductionName, Result};

/// A view's place, or why it has none.
pub(crate) type View<'a, B> = Result<Span<'a, B>, BadRange>;

/// What all drafts are made from.
pub(crate) struct Draft<'c, B: Backend> {
    core: &'c Core<B>,
    dtype: DType,
    /// The other side's data type, where it is known at run time only.
    other: DType,
    site: Site,
}

impl<B: Backend> Clone for Draft<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Draft<'_, B> {}

impl<'c, B: Backend> Draft<'c, B> {
    #[inline]
    pub(crate) fn new(core: &'c Core<B>, dtype: DType, site: Site) -> Self {
        Self { core, dtype, other: dtype, site }
    }

    /// With the other side's data type, which must be the same.
    #[inline]
    pub(crate) fn against(self, other: Option<DType>) -> Self {
        Self { other: other.unwrap_or(self.dtype), ..self }
    }

    #[inline]
    pub(crate) fn all_reduce<'a>(
        self,
        send: View<'a, B>,
        recv: View<'a, B>,
        op: Result<Reduction<'a, B>>,
    ) -> Result<Op<'a, B>> {
        let (send, recv) = (self.view(send)?, self.view(recv)?);
        let call = self.call(CollectiveName::AllReduce, send.len());
        self.holds(&call, "receive", recv.len(), 1)?;
        self.reducing(CollectiveName::AllReduce, call, op, Some(send), Some(recv))
    }

    #[inline]
    pub(crate) fn all_reduce_in_place<'a>(
        self,
        buf: View<'a, B>,
        op: Result<Reduction<'a, B>>,
    ) -> Result<Op<'a, B>> {
        let buf = self.view(buf)?;
        self.reducing(
            CollectiveName::AllReduce,
            self.call(CollectiveName::AllReduce, buf.len()),
            op,
            Some(buf),
            Some(buf),
        )
    }

    pub(crate) fn broadcast<'a>(
        self,
        send: Option<View<'a, B>>,
        recv: View<'a, B>,
        root: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let recv = self.view(recv)?;
        let call = self.rooted(CollectiveName::Broadcast, recv.len(), root)?;
        let send = self.on_root(&call, send)?;
        if let Some(send) = &send {
            self.holds(&call, "send", send.len(), 1)?;
        }
        self.moving(CollectiveName::Broadcast, call, send, Some(recv))
    }

    pub(crate) fn broadcast_in_place<'a>(
        self,
        buf: View<'a, B>,
        root: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let buf = self.view(buf)?;
        let call = self.rooted(CollectiveName::Broadcast, buf.len(), root)?;
        self.moving(CollectiveName::Broadcast, call, self.is_root(&call).then_some(buf), Some(buf))
    }

    pub(crate) fn reduce<'a>(
        self,
        send: View<'a, B>,
        recv: Option<View<'a, B>>,
        op: Result<Reduction<'a, B>>,
        root: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let send = self.view(send)?;
        let call = self.rooted(CollectiveName::Reduce, send.len(), root)?;
        let recv = self.on_root(&call, recv)?;
        if let Some(recv) = &recv {
            self.holds(&call, "receive", recv.len(), 1)?;
        }
        self.reducing(CollectiveName::Reduce, call, op, Some(send), recv)
    }

    pub(crate) fn reduce_in_place<'a>(
        self,
        buf: View<'a, B>,
        op: Result<Reduction<'a, B>>,
        root: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let buf = self.view(buf)?;
        let call = self.rooted(CollectiveName::Reduce, buf.len(), root)?;
        self.reducing(
            CollectiveName::Reduce,
            call,
            op,
            Some(buf),
            self.is_root(&call).then_some(buf),
        )
    }

    #[inline]
    pub(crate) fn all_gather<'a>(self, send: View<'a, B>, recv: View<'a, B>) -> Result<Op<'a, B>> {
        let (send, recv) = (self.view(send)?, self.view(recv)?);
        let call = self.call(CollectiveName::AllGather, send.len());
        self.holds(&call, "receive", recv.len(), self.core.size)?;
        self.moving(CollectiveName::AllGather, call, Some(send), Some(recv))
    }

    #[inline]
    pub(crate) fn all_gather_in_place<'a>(self, buf: View<'a, B>) -> Result<Op<'a, B>> {
        let buf = self.view(buf)?;
        let count = self.block(CollectiveName::AllGather, buf.len())?;
        // SAFETY: `block` divided the span's length by the number of ranks.
        let own = unsafe { buf.nth(self.core.rank, count, self.dtype) };
        self.moving(
            CollectiveName::AllGather,
            self.call(CollectiveName::AllGather, count),
            Some(own),
            Some(buf),
        )
    }

    #[inline]
    pub(crate) fn reduce_scatter<'a>(
        self,
        send: View<'a, B>,
        recv: View<'a, B>,
        op: Result<Reduction<'a, B>>,
    ) -> Result<Op<'a, B>> {
        let (send, recv) = (self.view(send)?, self.view(recv)?);
        let call = self.call(CollectiveName::ReduceScatter, recv.len());
        self.holds(&call, "send", send.len(), self.core.size)?;
        self.reducing(CollectiveName::ReduceScatter, call, op, Some(send), Some(recv))
    }

    #[inline]
    pub(crate) fn reduce_scatter_in_place<'a>(
        self,
        buf: View<'a, B>,
        op: Result<Reduction<'a, B>>,
    ) -> Result<Op<'a, B>> {
        let buf = self.view(buf)?;
        let count = self.block(CollectiveName::ReduceScatter, buf.len())?;
        // SAFETY: `block` divided the span's length by the number of ranks.
        let own = unsafe { buf.nth(self.core.rank, count, self.dtype) };
        self.reducing(
            CollectiveName::ReduceScatter,
            self.call(CollectiveName::ReduceScatter, count),
            op,
            Some(buf),
            Some(own),
        )
    }

    #[inline]
    pub(crate) fn all_to_all<'a>(self, send: View<'a, B>, recv: View<'a, B>) -> Result<Op<'a, B>> {
        let (send, recv) = (self.view(send)?, self.view(recv)?);
        let call =
            self.call(CollectiveName::AllToAll, self.block(CollectiveName::AllToAll, send.len())?);
        self.holds(&call, "receive", recv.len(), self.core.size)?;
        self.moving(CollectiveName::AllToAll, call, Some(send), Some(recv))
    }

    pub(crate) fn gather<'a>(
        self,
        send: View<'a, B>,
        recv: Option<View<'a, B>>,
        root: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let send = self.view(send)?;
        let call = self.rooted(CollectiveName::Gather, send.len(), root)?;
        let recv = self.on_root(&call, recv)?;
        if let Some(recv) = &recv {
            self.holds(&call, "receive", recv.len(), self.core.size)?;
        }
        self.moving(CollectiveName::Gather, call, Some(send), recv)
    }

    pub(crate) fn gather_in_place<'a>(
        self,
        buf: View<'a, B>,
        root: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let (call, own, all) = self.rooted_in_place(CollectiveName::Gather, buf, root)?;
        self.moving(CollectiveName::Gather, call, Some(own), all)
    }

    pub(crate) fn scatter<'a>(
        self,
        send: Option<View<'a, B>>,
        recv: View<'a, B>,
        root: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let recv = self.view(recv)?;
        let call = self.rooted(CollectiveName::Scatter, recv.len(), root)?;
        let send = self.on_root(&call, send)?;
        if let Some(send) = &send {
            self.holds(&call, "send", send.len(), self.core.size)?;
        }
        self.moving(CollectiveName::Scatter, call, send, Some(recv))
    }

    pub(crate) fn scatter_in_place<'a>(
        self,
        buf: View<'a, B>,
        root: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let (call, own, all) = self.rooted_in_place(CollectiveName::Scatter, buf, root)?;
        self.moving(CollectiveName::Scatter, call, all, Some(own))
    }

    /// This rank's block, and on the root the whole.
    fn rooted_in_place<'a>(
        self,
        name: CollectiveName,
        buf: View<'a, B>,
        root: impl AsRank,
    ) -> Result<(Call, Span<'a, B>, Option<Span<'a, B>>)> {
        let buf = self.view(buf)?;
        let mut call = self.rooted(name, buf.len(), root)?;
        if !self.is_root(&call) {
            return Ok((call, buf, None));
        }
        call.count = self.block(name, buf.len())?;
        // SAFETY: `block` divided the span's length by the number of ranks.
        let own = unsafe { buf.nth(self.core.rank, call.count, self.dtype) };
        Ok((call, own, Some(buf)))
    }
}

/// The checks.
impl<B: Backend> Draft<'_, B> {
    #[inline]
    pub(crate) fn call(&self, operation: impl Into<Operation>, count: usize) -> Call {
        Call::new(operation, self.dtype, count, self.site)
    }

    #[inline]
    pub(crate) fn view<'a>(&self, view: View<'a, B>) -> Result<Span<'a, B>> {
        match view {
            Ok(span) => Ok(span),
            Err(bad) => Err(bad_range(bad)),
        }
    }

    #[inline]
    fn reducing<'a>(
        &self,
        name: CollectiveName,
        mut call: Call,
        op: Result<Reduction<'a, B>>,
        send: Option<Span<'a, B>>,
        recv: Option<Span<'a, B>>,
    ) -> Result<Op<'a, B>> {
        let op = op?;
        if self.other != self.dtype {
            return Err(differ(call, self.other));
        }
        if op.name() == ReductionName::Mean && !self.dtype.is_float() {
            return Err(no_mean(call));
        }
        call.reduction = Some(op.name());
        Ok(Op::Collective(Collective { name, call, reduction: Some(op), send, recv, config: None }))
    }

    #[inline]
    fn moving<'a>(
        &self,
        name: CollectiveName,
        call: Call,
        send: Option<Span<'a, B>>,
        recv: Option<Span<'a, B>>,
    ) -> Result<Op<'a, B>> {
        if self.other != self.dtype {
            return Err(differ(call, self.other));
        }
        Ok(Op::Collective(Collective { name, call, reduction: None, send, recv, config: None }))
    }

    /// Refuses unless a buffer holds `times` blocks of the call's count.
    #[inline]
    fn holds(&self, call: &Call, buffer: &'static str, found: usize, times: usize) -> Result<()> {
        match call.count.checked_mul(times) {
            Some(needed) if needed == found => Ok(()),
            needed => Err(bad_length(*call, buffer, found, times, needed)),
        }
    }

    /// The block length of a buffer that holds one block for each rank.
    #[inline]
    fn block(&self, name: CollectiveName, len: usize) -> Result<usize> {
        let size = self.core.size.max(1);
        if len.is_multiple_of(size) {
            return Ok(len / size);
        }
        let count = len / size + 1;
        Err(bad_length(self.call(name, count), "one", len, size, count.checked_mul(size)))
    }

    /// A call with a root that the communicator has.
    fn rooted(&self, name: CollectiveName, count: usize, root: impl AsRank) -> Result<Call> {
        let mut call = self.call(name, count);
        call.root = Some(self.rank(name, root)?);
        Ok(call)
    }

    /// A rank that the communicator has.
    #[inline]
    pub(crate) fn rank(&self, operation: impl Into<Operation>, rank: impl AsRank) -> Result<Rank> {
        match self.core.number(rank) {
            Some(number) => Ok(Rank::at(number)),
            None => Err(self.core.no_rank(operation.into().name(), rank, true, self.site)),
        }
    }

    fn is_root(&self, call: &Call) -> bool {
        call.root == Some(self.core.rank)
    }

    /// The buffer that only the root gives.
    fn on_root<'a>(&self, call: &Call, view: Option<View<'a, B>>) -> Result<Option<Span<'a, B>>> {
        match view {
            Some(view) => self.view(view).map(Some),
            None if self.is_root(call) => Err(Error::NoBuffer(Box::new(NoBuffer {
                operation: call.operation.name(),
                root: self.core.rank,
                site: call.site,
            }))),
            None => Ok(None),
        }
    }
}

#[cold]
fn differ(call: Call, found: DType) -> Error {
    let (operation, site, expected) = (call.operation.name(), call.site, call.dtype);
    Error::OtherDType(Box::new(OtherDType { operation, found, expected, site, collective: true }))
}

#[cold]
fn no_mean(call: Call) -> Error {
    let (operation, site, dtype) = (call.operation.name(), call.site, call.dtype);
    Error::NotReducible(Box::new(NotReducible { operation, dtype, site }))
}

#[cold]
fn bad_range(bad: BadRange) -> Error {
    Error::BadRange(Box::new(bad))
}

#[cold]
fn bad_length(
    call: Call,
    buffer: &'static str,
    found: usize,
    times: usize,
    needed: Option<usize>,
) -> Error {
    let (operation, site, dtype) = (call.operation.name(), call.site, call.dtype);
    let bytes = needed.and_then(|needed| needed.checked_mul(dtype.size()));
    let (Some(needed), Some(true)) = (needed, bytes.map(|b| isize::try_from(b).is_ok())) else {
        let count = call.count;
        let overflow = Overflow { operation, count, times, dtype, site, collective: true };
        return Error::Overflow(Box::new(overflow));
    };
    let because = match times {
        1 => "the other side's elements".to_owned(),
        _ => format!("{times} ranks x {}", call.count),
    };
    Error::BadLength(Box::new(BadLength {
        operation,
        buffer,
        dtype,
        found,
        needed,
        because,
        site,
        collective: true,
    }))
}

impl<B: Backend> Span<'_, B> {
    /// Block `index` of blocks of `count` elements.
    ///
    /// # Safety
    /// The span has more than `index` such blocks, of elements of `dtype`.
    #[inline]
    unsafe fn nth(&self, index: Rank, count: usize, dtype: DType) -> Self {
        let offset = self.offset() + index.index() * count * dtype.size();
        // SAFETY: the block is part of the span, by the caller's promise.
        unsafe { Span::new(self.allocation(), offset, count) }
    }
}
