//! Puts, signals and waits.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::end::Hold;
use super::member::{Member, Ticket};
use super::window::Reach;

/// A peer's signal.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) peer: usize,
    pub(crate) context: usize,
    pub(crate) signal: usize,
}

/// A wait of a rank.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) from: Target,
    pub(crate) times: u32,
}

/// Which signals: those of graphs are separate from all others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cells {
    Live,
    /// The next one is raised only after the last one was awaited.
    InTurns,
    /// They add up.
    Counted,
}

/// A put's target, source address and size.
#[derive(Clone)]
pub(crate) struct Write {
    pub(crate) window: Arc<Reach>,
    pub(crate) offset: usize,
    pub(crate) from: usize,
    pub(crate) bytes: usize,
}

/// Writes the data, if there is any, and raises the signal.
pub(super) fn raise(member: &Member, cells: Cells, target: Target, write: Option<&Write>) {
    let (room, Target { peer, context, signal }) = (&member.room, target);
    let cell = (room.rank, peer, context, signal);
    if cells == Cells::InTurns
        && member.wait(|| (room.in_graphs(cell).load(Acquire) == 0).then_some(())).is_none()
    {
        return;
    }
    if let Some(Write { window, offset, from, bytes }) = write {
        // SAFETY: the caller of the put keeps NCCL's contract: the source exists until its stream
        // has passed, and nothing uses the target before the signal.
        unsafe { window.write(peer, *offset, *from, *bytes) };
    }
    if cells == Cells::Live {
        return room.raise(peer, context, signal);
    }
    room.in_graphs(cell).fetch_add(1, AcqRel);
    room.ring(peer);
}

/// Waits for signals. Neither an abort nor a revocation ends it.
pub(super) fn wait(member: &Member, cells: Cells, _ticket: &Ticket, waits: &[Wait]) {
    // While it waits on a live communicator, the process cannot end.
    let mut hold = Some(Hold::new());
    for Wait { from, times } in waits {
        let Target { peer, context, signal } = *from;
        let cell = member.room.in_graphs((peer, member.room.rank, context, signal));
        member.room.wait(|| {
            if member.is_over() {
                hold = None;
            }
            let is_raised = match cells {
                Cells::Live => member.consume(peer, context, signal, *times),
                // Only this rank consumes them.
                Cells::InTurns | Cells::Counted => cell.load(Acquire) >= *times,
            };
            is_raised.then_some(())
        });
        if cells != Cells::Live {
            cell.fetch_sub(*times, AcqRel);
            member.room.ring(peer);
        }
    }
}
