//! Instrumentation for the `tracing` feature: a span for each enqueued operation and each host
//! wait, and an event for each change of a communicator's state. Without the feature, [`Span`] is
//! empty and every function here is a no-op.

use crate::backend::{Backend, Op};
use crate::error::Site;
use crate::health::{Change, Health};
use crate::{Rank, metered, record};

/// A span that closes when it is dropped.
#[must_use = "a span is open until it is dropped"]
pub(crate) struct Span {
    #[cfg(feature = "tracing")]
    open: Vec<tracing::span::EnteredSpan>,
}

/// Closes spans in reverse order of opening.
#[cfg(feature = "tracing")]
impl Drop for Span {
    fn drop(&mut self) {
        while self.open.pop().is_some() {}
    }
}

/// A communicator's health, and how many ranks it has.
pub(crate) type Who<'a> = (&'a Health, usize);

/// Whether changes are told to `tracing` or as metrics.
pub(crate) const IS_ON: bool = cfg!(any(feature = "tracing", feature = "metrics"));

#[cfg(not(feature = "tracing"))]
mod off {
    use super::{Backend, Change, Health, Op, Rank, Site, Span, Who};

    /// A span for enqueued operations.
    #[inline(always)]
    pub(crate) fn enqueue<B: Backend>(_: Who<'_>, _: &[Op<'_, B>]) -> Span {
        Span {}
    }

    /// A span for enqueued operations of several ranks.
    #[inline(always)]
    pub(crate) fn enqueue_all<'a, B: Backend>(
        _: impl Iterator<Item = (Who<'a>, &'a [Op<'a, B>])>,
    ) -> Span {
        Span {}
    }

    /// A span for a host wait, with the communicator whose call it is, if any.
    #[inline(always)]
    pub(crate) fn wait(_: Option<&Health>, _: &'static str, _: Site) -> Span {
        Span {}
    }

    /// An event for a change of a communicator's state.
    #[inline(always)]
    pub(crate) fn change(_: &'static str, _: Rank, _: &Change) {}
}

#[cfg(feature = "tracing")]
mod on {
    use tracing::{Level, enabled, field, info, info_span, warn};

    use super::{Backend, Change, Health, Op, Rank, Site, Span, Who};

    /// Spans for enqueued operations. Those of a group are open together.
    pub(crate) fn enqueue<B: Backend>((health, size): Who<'_>, ops: &[Op<'_, B>]) -> Span {
        let span = |op: &Op<'_, B>| {
            let call = op.call();
            let span = info_span!(
                target: "typed_nccl",
                "enqueue",
                operation = call.operation.name(),
                communicator = health.name(),
                rank = health.rank().index(),
                size,
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

    /// Spans for enqueued operations of several ranks.
    pub(crate) fn enqueue_all<'a, B: Backend>(
        parts: impl Iterator<Item = (Who<'a>, &'a [Op<'a, B>])>,
    ) -> Span {
        let open = |(who, ops)| std::mem::take(&mut enqueue(who, ops).open);
        Span { open: parts.flat_map(open).collect() }
    }

    /// A span for a host wait, with the communicator whose call it is, if any.
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

    /// An event for a change of a communicator's state.
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
use off as to;
#[cfg(feature = "tracing")]
use on as to;

/// A span for enqueued operations, which are counted too.
#[inline(always)]
pub(crate) fn enqueue<B: Backend>(who: Who<'_>, ops: &[Op<'_, B>]) -> Span {
    metered::enqueued(who.0, ops);
    to::enqueue(who, ops)
}

/// A span for enqueued operations of several ranks, which are counted too.
#[inline(always)]
pub(crate) fn enqueue_all<'a, B: Backend>(
    parts: impl Iterator<Item = (Who<'a>, &'a [Op<'a, B>])> + Clone,
) -> Span {
    parts.clone().for_each(|((health, _), ops)| metered::enqueued(health, ops));
    to::enqueue_all(parts)
}

/// An event for a change of a communicator's state, which is counted too.
#[inline(always)]
pub(crate) fn change(communicator: &'static str, rank: Rank, change: &Change) {
    metered::change(communicator, rank, change);
    to::change(communicator, rank, change);
}

/// A host wait of a communicator's call, for `tracing`, for the timeline and as a metric.
pub(crate) fn wait(
    health: Option<&Health>,
    operation: &'static str,
    site: Site,
) -> (Span, record::Wait, metered::Wait) {
    let timeline = record::wait(|| health, operation, site);
    (to::wait(health, operation, site), timeline, metered::wait(health, operation))
}
