//! Secretly collective set-up: first connections, and the first one-sided operation.

use std::collections::BTreeSet;

use super::schedule::WarmUp;
use crate::ir::CommunicatorId;
use crate::program::{OpKind, Program};

/// The operations of all ranks before the first run: communicator by communicator, in the order of
/// the plan.
pub(super) fn warm_ups(program: &Program) -> Vec<WarmUp> {
    let count = program.communicators;
    let (mut collectives, mut one_sided) = (vec![false; count], vec![false; count]);
    let mut pairs: Vec<BTreeSet<(u32, u32)>> = vec![BTreeSet::new(); count];
    for unit in program.units.iter().filter(|unit| !unit.is_compute) {
        for op in program.ops_of(unit) {
            let among = usize::from(op.communicator);
            let mut connect = |other: u32| {
                if other != unit.rank {
                    pairs[among].insert((unit.rank.min(other), unit.rank.max(other)));
                }
            };
            match op.kind {
                OpKind::Send | OpKind::Receive => connect(op.peer),
                OpKind::Put | OpKind::Signal | OpKind::Wait => one_sided[among] = true,
                OpKind::Collective(kind) if !kind.name().is_messages() => collectives[among] = true,
                OpKind::Collective(kind) if kind.name().has_root() => connect(op.peer),
                OpKind::Collective(_) => {
                    let members = program.layout.together(among, unit.rank as usize);
                    members.for_each(|member| connect(member as u32));
                }
                OpKind::Read | OpKind::Write | OpKind::Get => {}
            }
        }
    }
    let mut all = Vec::new();
    for (among, pairs) in pairs.into_iter().enumerate() {
        let id = CommunicatorId(among as u32);
        if collectives[among] {
            all.push(WarmUp::Collectives(id));
        }
        if !pairs.is_empty() {
            all.push(WarmUp::Connections { among: id, pairs: pairs.into_iter().collect() });
        }
        if one_sided[among] {
            all.push(WarmUp::OneSided(id));
        }
    }
    all
}
