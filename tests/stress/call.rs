//! Calls collectives on a stream.

use typed_nccl::{Max, On, Result, Root, Slice, SliceMut, Sum};

use super::device::Dev;
use super::step::Kind;

/// From one view to another; on ranks other than the root, its view is unused.
pub(crate) fn collective(
    on: &On<'_, Dev>,
    kind: Kind,
    from: &Slice<'_, u32, Dev>,
    to: &mut SliceMut<'_, u32, Dev>,
    rank: usize,
) -> Result<()> {
    match kind {
        Kind::Sum => on.all_reduce(from, to, Sum),
        Kind::Max => on.all_reduce(from, to, Max),
        Kind::AllGather => on.all_gather(from, to),
        Kind::ReduceScatter => on.reduce_scatter(from, to, Sum),
        Kind::AllToAll => on.all_to_all(from, to),
        Kind::Broadcast(root) => {
            on.broadcast(Root::here_or_at((root == rank).then_some(from), root), to)
        }
        Kind::Reduce(root) => {
            on.reduce_into(from, Root::here_or_at((root == rank).then_some(to), root), Sum)
        }
        Kind::Gather(root) => {
            on.gather_into(from, Root::here_or_at((root == rank).then_some(to), root))
        }
        Kind::Scatter(root) => {
            on.scatter(Root::here_or_at((root == rank).then_some(from), root), to)
        }
    }
}

pub(crate) fn in_place(
    on: &On<'_, Dev>,
    kind: Kind,
    at: &mut SliceMut<'_, u32, Dev>,
) -> Result<()> {
    match kind {
        Kind::Sum => on.all_reduce_in_place(at, Sum),
        Kind::Max => on.all_reduce_in_place(at, Max),
        Kind::AllGather => on.all_gather_in_place(at),
        Kind::ReduceScatter => on.reduce_scatter_in_place(at, Sum),
        Kind::Broadcast(root) => on.broadcast_in_place(at, root),
        Kind::Reduce(root) => on.reduce_in_place(at, Sum, root),
        Kind::Gather(root) => on.gather_in_place(at, root),
        Kind::Scatter(root) => on.scatter_in_place(at, root),
        Kind::AllToAll => panic!("not drawn: it has no form in place"),
    }
}
