//! In place (A15): a collective whose memory overlaps has its part at its own place. Inputs are not
//! written, outputs are. Types and lengths of puts (A2).

use typed_nccl_plan::ir::{CollectiveKind, CommunicatorId, Role};
use typed_nccl_plan::verdict::Check;

use crate::instance::Instance;
use crate::outcome::Outcome;
use crate::unit::{Act, Op, Unit};

pub(crate) fn check(instance: &Instance<'_>, units: &[Vec<Unit>], outcome: &mut Outcome) {
    let mut written = vec![false; instance.plan.buffers.len()];
    let mut empty = vec![true; instance.plan.buffers.len()];
    for (rank, units) in units.iter().enumerate() {
        for op in units.iter().flat_map(|unit| &unit.ops) {
            let (_, mut writes) = op.touches();
            if let Act::Put { from, to, .. } = op.act {
                writes.push(to);
                let element = |buffer: usize| &instance.plan.buffers[buffer].element;
                if element(from.buffer) != element(to.buffer) || from.said != to.said {
                    let text = || format!("rank {rank}: a put of one kind into another");
                    outcome.note(Check::Agreement, text);
                }
            }
            for span in writes.iter().filter(|span| !span.is_empty()) {
                written[span.buffer] = true;
            }
            if let Some(why) = misplaced(instance, rank, op) {
                outcome.note(Check::Initialised, || format!("rank {rank}: {why}"));
            }
        }
    }
    // There is nothing to write in what is empty.
    for (buffer, _, len) in (0..instance.ranks()).flat_map(|rank| instance.allocations(rank)) {
        empty[buffer] &= len == 0;
    }
    let empty = empty.into_iter();
    for ((buffer, written), empty) in instance.plan.buffers.iter().zip(written).zip(empty) {
        let why = match (buffer.role, written) {
            (Role::In, true) => "is an input, and written",
            (Role::Out, false) if !empty => "is an output, and nothing writes it",
            _ => continue,
        };
        outcome.note(Check::Initialised, || format!("`{}` {why}", buffer.name));
    }
}

/// A buffer has a length (A12).
pub(crate) fn lengths(instance: &Instance<'_>, outcome: &mut Outcome) {
    for (buffer, len) in instance.said().filter(|(_, len)| *len < 0) {
        let name = &instance.plan.buffers[buffer].name;
        outcome.note(Check::Bounds, || format!("`{name}` is {len} long"));
    }
}

fn misplaced(instance: &Instance<'_>, rank: usize, op: &Op) -> Option<String> {
    let Act::Collective { kind, send: Some(send), recv: Some(recv), count, .. } = &op.act else {
        return None;
    };
    if !send.meets(recv) {
        return None;
    }
    let among = CommunicatorId(u32::try_from(op.among?).ok()?);
    let place = instance.members(among, rank).ok()?.iter().position(|&one| one == rank)?;
    let shift = place * usize::try_from(*count).ok()?;
    let right = match kind {
        CollectiveKind::AllReduce(_)
        | CollectiveKind::Broadcast(_)
        | CollectiveKind::Reduce(..) => send == recv,
        // NCCL makes messages of it, which have no order.
        CollectiveKind::AllToAll => false,
        CollectiveKind::AllGather | CollectiveKind::Gather(_) => send.from == recv.from + shift,
        CollectiveKind::ReduceScatter(_) | CollectiveKind::Scatter(_) => {
            recv.from == send.from + shift
        }
    };
    (!right).then(|| format!("{} partly in place: {send:?}, {recv:?}", kind.name()))
}
