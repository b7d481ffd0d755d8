//! Checks that the lanes' operations can complete. Only this thread could make a missing call, but
//! it waits in the group, where NCCL blocks on the first operation.

use typed_nccl_match::unlike;

use crate::Result;
use crate::backend::{Backend, Half, Op};
use crate::error::{Call, LanesDiffer, Site};
use crate::group::CommOps;

/// Refuses collectives that differ between ranks, and transfers without their other half.
pub(super) fn complete<B: Backend>(parts: &[CommOps<'_, B>], site: Site) -> Result<()> {
    let differ = |what: String| Err(LanesDiffer { what, site }.into());
    // A refused part has no calls to compare, and its own reason is returned.
    if parts.iter().any(CommOps::is_refused) {
        return Ok(());
    }
    let say = |rank: usize, call: Option<&Call>| match call {
        Some(call) => format!("rank {rank} records {call}"),
        None => format!("rank {rank} records nothing to match it"),
    };
    let Some(first) = parts.first() else { return Ok(()) };
    for (rank, part) in parts.iter().enumerate().skip(1) {
        if let Some((one, other)) = unlike(collectives(first), collectives(part), Call::matches) {
            let (one, other) = (say(0, one.as_ref()), say(rank, other.as_ref()));
            return differ(format!("{one}, {other}"));
        }
    }
    let alike = |send: &Call, recv: &Call| send.signature() == recv.signature();
    for (from, sender) in parts.iter().enumerate() {
        for (to, receiver) in parts.iter().enumerate() {
            let sends = halves(sender, Half::SendTo, to);
            if let Some((send, recv)) = unlike(sends, halves(receiver, Half::RecvFrom, from), alike)
            {
                let (send, recv) = (say(from, send.as_ref()), say(to, recv.as_ref()));
                return differ(format!("{send}, {recv}"));
            }
        }
    }
    Ok(())
}

fn collectives<B: Backend>(part: &CommOps<'_, B>) -> impl Iterator<Item = Call> {
    part.ops().iter().filter_map(|op| match op {
        Op::Collective(collective) => Some(collective.call),
        _ => None,
    })
}

fn halves<B: Backend>(
    part: &CommOps<'_, B>,
    half: Half,
    peer: usize,
) -> impl Iterator<Item = Call> {
    part.ops().iter().filter_map(move |op| match op {
        Op::Transfer(it) if it.half == half && it.peer.index() == peer => Some(it.call),
        _ => None,
    })
}
