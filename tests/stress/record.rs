//! Plays the parts of a round: in a group, or one by one.

use typed_nccl::{Group, Max, On, Result, Root, SignalSlot, Signals, Sum};

use super::call;
use super::device::Dev;
use super::draw::windows;
use super::step::{At, Collective, InPlace, Kind, Part, Round, Shape, Waits};
use super::views::Views;

/// A rank's state while it plays a part.
#[derive(Clone, Copy)]
pub(crate) struct Here<'h> {
    pub(crate) rank: usize,
    pub(crate) shape: Shape,
    /// By context and signal.
    pub(crate) slots: &'h [Vec<SignalSlot>],
}

impl Here<'_> {
    pub(crate) fn slot(&self, slot: (u32, u32)) -> SignalSlot {
        self.slots[slot.0 as usize][slot.1 as usize]
    }
}

pub(crate) fn grouped<'e>(
    g: &mut Group<'e, Dev>,
    round: &Round,
    views: &mut Views<'e>,
    here: Here<'_>,
    due: &Signals,
) -> Result<()> {
    round.parts.iter().try_for_each(|part| in_group(g, part, views, here))?;
    if round.refused_by == Some(here.rank) {
        one_too_many(g, round, views, here)?;
    }
    match round.waits {
        Waits::InGroup => g.wait_signals(due),
        _ => Ok(()),
    }
}

fn in_group<'e>(
    g: &mut Group<'e, Dev>,
    part: &Part,
    views: &mut Views<'e>,
    here: Here<'_>,
) -> Result<()> {
    let rank = here.rank;
    match *part {
        Part::Collective(Collective { kind, from, to, len }) => {
            let end = from.start + kind.sends(len, here.shape.ranks);
            let send = views.shared(from.store).slice(from.start..end);
            let recv = views.part(to, kind.receives(len, here.shape.ranks));
            match kind {
                Kind::Sum => g.all_reduce(send, recv, Sum),
                Kind::Max => g.all_reduce(send, recv, Max),
                Kind::AllGather => g.all_gather(send, recv),
                Kind::ReduceScatter => g.reduce_scatter(send, recv, Sum),
                Kind::AllToAll => g.all_to_all(send, recv),
                Kind::Reduce(root) => {
                    let recv = Root::here_or_at((root == rank).then_some(recv), root);
                    g.reduce_into(send, recv, Sum)
                }
                Kind::Broadcast(_) | Kind::Gather(_) | Kind::Scatter(_) => {
                    panic!("not drawn: groups have them in place only")
                }
            }
        }
        Part::InPlace(what @ InPlace { kind, at, .. }) => {
            let all = views.part(at, what.extent(rank, here.shape.ranks));
            match kind {
                Kind::Sum => g.all_reduce_in_place(all, Sum),
                Kind::Max => g.all_reduce_in_place(all, Max),
                Kind::AllGather => g.all_gather_in_place(all),
                Kind::ReduceScatter => g.reduce_scatter_in_place(all, Sum),
                Kind::Broadcast(root) => g.broadcast_in_place(all, root),
                Kind::Reduce(root) => g.reduce_in_place(all, Sum, root),
                Kind::Gather(root) => g.gather_in_place(all, root),
                Kind::Scatter(root) => g.scatter_in_place(all, root),
                Kind::AllToAll => panic!("not drawn: it has no form in place"),
            }
        }
        Part::Transfer(transfer) => {
            if transfer.sender == rank {
                let from = transfer.from;
                let send = views.shared(from.store).slice(from.start..from.start + transfer.len);
                g.send(send, transfer.receiver)?;
            }
            if transfer.receiver == rank {
                g.recv(views.part(transfer.to, transfer.len), transfer.sender)?;
            }
            Ok(())
        }
        Part::Put(put) if put.writer == rank => {
            let source = views.shared(put.from.store).source(put.from, put.len);
            let target = views.shared(put.to.store).target(put.to).raising(here.slot(put.slot));
            g.put_signal(source, put.target, target)
        }
        Part::Signal { from, to, .. } if from == rank => g.signal(to),
        Part::Put(_) | Part::Signal { .. } => Ok(()),
    }
}

/// Records a put to oneself that ends past the window: the group is refused.
fn one_too_many<'e>(
    g: &mut Group<'e, Dev>,
    round: &Round,
    views: &Views<'e>,
    here: Here<'_>,
) -> Result<()> {
    let window = windows(round.comm).find(|&store| views.is_shared(store));
    let window = window.expect("a fenced round has a window to read");
    let (from, to) =
        (At { store: window, start: 0 }, At { store: window, start: here.shape.size() });
    let window = views.shared(window);
    g.put_signal(window.source(from, 1), here.rank, window.target(to))
}

pub(crate) fn alone(
    on: &On<'_, Dev>,
    part: &Part,
    views: &mut Views<'_>,
    here: Here<'_>,
) -> Result<()> {
    let rank = here.rank;
    match *part {
        Part::Collective(Collective { kind, from, to, len }) => {
            let end = from.start + kind.sends(len, here.shape.ranks);
            let send = views.shared(from.store).slice(from.start..end);
            let mut recv = views.part(to, kind.receives(len, here.shape.ranks));
            call::collective(on, kind, &send, &mut recv, rank)
        }
        Part::InPlace(what) => {
            let mut all = views.part(what.at, what.extent(rank, here.shape.ranks));
            call::in_place(on, what.kind, &mut all)
        }
        Part::Transfer(transfer) if transfer.sender == rank => {
            let from = transfer.from;
            let send = views.shared(from.store).slice(from.start..from.start + transfer.len);
            on.send(&send, transfer.receiver)
        }
        Part::Transfer(transfer) if transfer.receiver == rank => {
            on.recv(&mut views.part(transfer.to, transfer.len), transfer.sender)
        }
        Part::Put(put) if put.writer == rank => {
            let source = views.shared(put.from.store).source(put.from, put.len);
            let target = views.shared(put.to.store).target(put.to).raising(here.slot(put.slot));
            on.put_signal(source, put.target, target)
        }
        Part::Signal { from, to, slot } if from == rank => on.signal_slot(to, here.slot(slot)),
        Part::Transfer(_) | Part::Put(_) | Part::Signal { .. } => Ok(()),
    }
}
