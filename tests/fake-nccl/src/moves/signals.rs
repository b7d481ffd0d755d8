//! Puts, signals and waits.

use std::sync::Arc;

use super::end::Hold;
use super::member::{Member, Ticket};
use super::window::Reach;

/// A signal of a peer's.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) peer: usize,
    pub(crate) context: usize,
    pub(crate) signal: usize,
}

/// What a rank waits for.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) from: Target,
    pub(crate) times: u32,
}

/// What a put writes: where, from what address on, how much.
pub(crate) struct Write {
    pub(crate) window: Arc<Reach>,
    pub(crate) offset: usize,
    pub(crate) from: usize,
    pub(crate) bytes: usize,
}

/// Writes, if there is something to, and raises the signal.
pub(super) fn raise(member: &Member, target: Target, write: Option<&Write>) {
    if let Some(Write { window, offset, from, bytes }) = write {
        // SAFETY: the caller of the put keeps NCCL's contract: the source is there until its stream is
        // past, and nobody uses the target before the signal.
        unsafe { window.write(target.peer, *offset, *from, *bytes) };
    }
    member.room.raise(target.peer, target.context, target.signal);
}

/// Waits for signals. Nothing else ends it: not an abort, not a revocation.
pub(super) fn wait(member: &Member, _ticket: &Ticket, waits: &[Wait]) {
    // While it waits on a communicator that lives the process cannot end.
    let mut hold = Some(Hold::new());
    for Wait { from, times } in waits {
        let Target { peer, context, signal } = *from;
        member.room.wait(|| {
            if member.is_over() {
                hold = None;
            }
            member.consume(peer, context, signal, *times).then_some(())
        });
    }
}
