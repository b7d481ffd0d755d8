//! Drafts: validation that turns a call into an operation, or into the reason for refusing it.
//!
//! Nothing here sends, records or waits: `On` issues a draft at once, a group records it.

use typed_nccl_plan::ir::Side;

use crate::backend::{Backend, Collective, Op, Reduction, Span};
use crate::communicator::Core;
use crate::derived::copy;
use crate::error::{
    BadLength, BadRange, Call, CollectiveName, Error, NoBuffer, NotReducible, Operation,
    OtherDType, Overflow, Site,
};
use crate::{AsRank, DType, Rank, ReductionName, Result};

/// The location of a view, or why it has none.
pub(crate) type View<'a, B> = Result<Span<'a, B>, BadRange>;

/// The inputs of every draft.
pub(crate) struct Draft<'c, B: Backend> {
    core: &'c Core<B>,
    dtype: DType,
    /// The other side's data type, if it is known at run time only.
    other: DType,
    site: Site,
}

copy!([B: Backend] Draft<'_, B>);

impl<'c, B: Backend> Draft<'c, B> {
    #[inline]
    pub(crate) fn new(core: &'c Core<B>, dtype: DType, site: Site) -> Self {
        Self { core, dtype, other: dtype, site }
    }

    /// Adds the other side's data type, which must be the same.
    #[inline]
    pub(crate) fn against(self, other: Option<DType>) -> Self {
        Self { other: other.unwrap_or(self.dtype), ..self }
    }

    /// The same as [`collective`](Self::collective), spelled out because it has to be fast.
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
        self.op(CollectiveName::AllReduce, call, Some(op), Some(send), Some(recv))
    }

    #[inline]
    pub(crate) fn all_reduce_in_place<'a>(
        self,
        buf: View<'a, B>,
        op: Result<Reduction<'a, B>>,
    ) -> Result<Op<'a, B>> {
        let buf = self.view(buf)?;
        let call = self.call(CollectiveName::AllReduce, buf.len());
        self.op(CollectiveName::AllReduce, call, Some(op), Some(buf), Some(buf))
    }

    /// A collective of sides with their data types.
    #[inline]
    pub(crate) fn between<'a>(
        core: &'c Core<B>,
        site: Site,
        name: CollectiveName,
        (send, recv): (Option<(DType, View<'a, B>)>, Option<(DType, View<'a, B>)>),
        op: Option<Result<Reduction<'a, B>>>,
        root: Option<Rank>,
    ) -> Result<Op<'a, B>> {
        let ((from, send), (to, recv)) = (send.unzip(), recv.unzip());
        // Where one side is only the root's, the other says the type.
        let (dtype, other) = if name.spec().send.only_root { (to, from) } else { (from, to) };
        let draft = Self::new(core, dtype.unwrap_or(DType::U8), site).against(other);
        draft.collective(name, (send, recv), op, root)
    }

    /// A collective from one buffer into another. What only the root has is not given elsewhere.
    #[inline]
    pub(crate) fn collective<'a>(
        self,
        name: CollectiveName,
        (send, recv): (Option<View<'a, B>>, Option<View<'a, B>>),
        op: Option<Result<Reduction<'a, B>>>,
        root: Option<impl AsRank>,
    ) -> Result<Op<'a, B>> {
        let spec = name.spec();
        let is_exchange = spec.wholes() == (true, true);
        // What every rank has says how long a part is; the other side is as long as that says.
        let by_send = spec.sends_part() || is_exchange;
        let (own, other, side, buffer) = match by_send {
            true => (send, recv, spec.recv, "receive"),
            false => (recv, send, spec.send, "send"),
        };
        let own = own.map_or_else(
            || Err(no_buffer(self.call(name, 0), self.core.rank)),
            |own| self.view(own),
        )?;
        let mut call = self.rooted(name, own.len(), root)?;
        let other = self.on_root(&call, other)?;
        if is_exchange {
            call.count = self.block(name, own.len())?;
        }
        if let Some(other) = &other {
            let times = if side.is_whole { self.core.size } else { 1 };
            self.holds(&call, buffer, other.len(), times)?;
        }
        let (send, recv) = if by_send { (Some(own), other) } else { (other, Some(own)) };
        self.op(name, call, op, send, recv)
    }

    /// A collective in one buffer: of all parts where this rank has a whole, else of one.
    #[inline]
    pub(crate) fn in_place<'a>(
        self,
        name: CollectiveName,
        buf: View<'a, B>,
        op: Option<Result<Reduction<'a, B>>>,
        root: Option<impl AsRank>,
    ) -> Result<Op<'a, B>> {
        let buf = self.view(buf)?;
        let mut call = self.rooted(name, buf.len(), root)?;
        let (spec, is_root) = (name.spec(), self.is_root(&call));
        let has_whole = |side: Side| side.is_whole && side.is_on(is_root);
        let mut own = buf;
        if has_whole(spec.send) || has_whole(spec.recv) {
            call.count = self.block(name, buf.len())?;
            // SAFETY: `block` divided the span's length by the number of ranks.
            own = unsafe { buf.nth(self.core.rank, call.count, self.dtype) };
        }
        let span =
            |side: Side| side.is_on(is_root).then_some(if side.is_whole { buf } else { own });
        self.op(name, call, op, span(spec.send), span(spec.recv))
    }
}

/// Checks.
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
    fn op<'a>(
        &self,
        name: CollectiveName,
        mut call: Call,
        op: Option<Result<Reduction<'a, B>>>,
        send: Option<Span<'a, B>>,
        recv: Option<Span<'a, B>>,
    ) -> Result<Op<'a, B>> {
        let reduction = match op {
            Some(op) => Some(op?),
            None => None,
        };
        if self.other != self.dtype {
            return Err(differ(call, self.other));
        }
        if let Some(op) = &reduction {
            if !op.name().reduces(self.dtype) {
                return Err(not_reducible(call, op.name()));
            }
            call.reduction = Some(op.name());
        }
        Ok(Op::Collective(Collective { name, call, reduction, send, recv, config: None }))
    }

    /// Refuses unless a buffer holds `times` blocks of the call's count.
    #[inline]
    fn holds(&self, call: &Call, buffer: &'static str, found: usize, times: usize) -> Result<()> {
        match call.count.checked_mul(times) {
            Some(needed) if needed == found => Ok(()),
            needed => Err(bad_length(*call, buffer, found, times, needed)),
        }
    }

    /// The block length of a buffer that holds one block per rank.
    #[inline]
    fn block(&self, name: CollectiveName, len: usize) -> Result<usize> {
        let size = self.core.size.max(1);
        if len.is_multiple_of(size) {
            return Ok(len / size);
        }
        let count = len / size + 1;
        Err(bad_length(self.call(name, count), "one", len, size, count.checked_mul(size)))
    }

    /// A call, with a root that the communicator has, if any.
    #[inline]
    fn rooted(
        &self,
        name: CollectiveName,
        count: usize,
        root: Option<impl AsRank>,
    ) -> Result<Call> {
        let mut call = self.call(name, count);
        if let Some(root) = root {
            call.root = Some(self.rank(name, root)?);
        }
        Ok(call)
    }

    /// Checks that a rank belongs to the communicator.
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

    /// The buffer that only the root passes.
    fn on_root<'a>(&self, call: &Call, view: Option<View<'a, B>>) -> Result<Option<Span<'a, B>>> {
        match view {
            Some(view) => self.view(view).map(Some),
            None if self.is_root(call) => Err(no_buffer(*call, self.core.rank)),
            None => Ok(None),
        }
    }
}

#[cold]
fn no_buffer(call: Call, root: Rank) -> Error {
    let (operation, site) = (call.operation.name(), call.site);
    Error::NoBuffer(Box::new(NoBuffer { operation, root, site }))
}

#[cold]
fn differ(call: Call, found: DType) -> Error {
    let (operation, site, expected) = (call.operation.name(), call.site, call.dtype);
    Error::OtherDType(Box::new(OtherDType { operation, found, expected, site, collective: true }))
}

#[cold]
fn not_reducible(call: Call, reduction: ReductionName) -> Error {
    let (operation, site, dtype) = (call.operation.name(), call.site, call.dtype);
    Error::NotReducible(Box::new(NotReducible { operation, reduction, dtype, site }))
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
    let bad = BadLength::new(operation, buffer, dtype, (found, needed), because, site);
    Error::from(BadLength { collective: true, ..bad })
}
