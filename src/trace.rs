//! What `tracing` is told, with the feature of that name: a span for each operation that is enqueued and
//! for each wait of the host, an event for each change of a communicator's state. Nothing without it: a
//! [`Span`] is empty then, and what makes one too.

use crate::Rank;
use crate::backend::{Backend, Op};
use crate::communicator::{Change, Core, Health};
use crate::error::Site;

/// Open until it is dropped.
#[must_use = "a span is open until it is dropped"]
pub(crate) struct Span {
    #[cfg(feature = "tracing")]
    open: Vec<tracing::span::EnteredSpan>,
}

/// The last one first, as they were opened.
#[cfg(feature = "tracing")]
impl Drop for Span {
    fn drop(&mut self) {
        while self.open.pop().is_some() {}
    }
}

/// Whether anybody may be told.
pub(crate) const IS_ON: bool = cfg!(feature = "tracing");

#[cfg(not(feature = "tracing"))]
mod off {
    use super::{Backend, Change, Core, Health, Op, Rank, Site, Span};

    /// Operations that are enqueued.
    #[inline(always)]
    pub(crate) fn enqueue<B: Backend>(_: &Core<B>, _: &[Op<'_, B>]) -> Span {
        Span {}
    }

    /// The same of several ranks.
    #[inline(always)]
    pub(crate) fn enqueue_all<'a, B: Backend>(
        _: impl Iterator<Item = (&'a Core<B>, &'a [Op<'a, B>])>,
    ) -> Span {
        Span {}
    }

    /// A wait of the host, in a call of a communicator's if there is one.
    #[inline(always)]
    pub(crate) fn wait(_: Option<&Health>, _: &'static str, _: Site) -> Span {
        Span {}
    }

    /// A change of a communicator's state.
    #[inline(always)]
    pub(crate) fn change(_: &'static str, _: Rank, _: &Change) {}
}

#[cfg(feature = "tracing")]
mod on {
    use tracing::{Level, enabled, field, info, info_span, warn};

    use super::{Backend, Change, Core, Health, Op, Rank, Site, Span};

    /// Operations that are enqueued. Those of a group are open together.
    pub(crate) fn enqueue<B: Backend>(core: &Core<B>, ops: &[Op<'_, B>]) -> Span {
        let span = |op: &Op<'_, B>| {
            let call = op.call();
            let span = info_span!(
                target: "typed_nccl",
                "enqueue",
                operation = call.operation.name(),
                communicator = core.health.name(),
                rank = core.rank.index(),
                size = core.size,
                dtype = field::display(call.dtype),
                elements = call.count,
                peer = field::Empty,
                root = field::Empty,
                at = field::display(call.site),
            );
            for (name, rank) in [("peer", call.peer), ("root", call.root)] {
                if let Some(rank) = rank {
                    span.record(name, rank.index());
                }
            }
            span.entered()
        };
        let is_on = enabled!(target: "typed_nccl", Level::INFO);
        Span { open: if is_on { ops.iter().map(span).collect() } else { Vec::new() } }
    }

    /// The same of several ranks.
    pub(crate) fn enqueue_all<'a, B: Backend>(
        parts: impl Iterator<Item = (&'a Core<B>, &'a [Op<'a, B>])>,
    ) -> Span {
        let open = |(core, ops)| std::mem::take(&mut enqueue(core, ops).open);
        Span { open: parts.flat_map(open).collect() }
    }

    /// A wait of the host, in a call of a communicator's if there is one.
    pub(crate) fn wait(health: Option<&Health>, operation: &'static str, site: Site) -> Span {
        let span = info_span!(
            target: "typed_nccl",
            "wait",
            operation,
            communicator = health.map(Health::name),
            rank = health.map(|health| health.rank().index()),
            at = field::display(site),
        );
        Span { open: vec![span.entered()] }
    }

    /// A change of a communicator's state.
    pub(crate) fn change(communicator: &'static str, rank: Rank, change: &Change) {
        let rank = rank.index();
        match change {
            Change::Failed(_) | Change::Revocation(_) | Change::Late(_) => {
                warn!(target: "typed_nccl", communicator, rank, "{change}");
            }
            _ => info!(target: "typed_nccl", communicator, rank, "{change}"),
        }
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{change, enqueue, enqueue_all, wait};
#[cfg(feature = "tracing")]
pub(crate) use on::{change, enqueue, enqueue_all, wait};
