//! Collectives: the same on all members, in the same order (A2, A4). Which of the two rules a
//! difference breaks is a matter of the telling: both are noted. Grouped alike on all members, with
//! the messages in the same groups (A8).

use typed_nccl_plan::ir::{CollectiveName, CommunicatorId, ElementType, Reduction};
use typed_nccl_plan::verdict::Check;

use crate::instance::Instance;
use crate::outcome::Outcome;
use crate::unit::{Act, Unit};

/// What members must agree in.
#[derive(PartialEq, Eq, Debug)]
struct Call<'a> {
    name: CollectiveName,
    reduction: Option<Reduction>,
    root: Option<usize>,
    element: Option<&'a ElementType>,
    count: i64,
}

pub(crate) fn check(instance: &Instance<'_>, units: &[Vec<Unit>], outcome: &mut Outcome) {
    for communicator in 0..instance.plan.communicators.len() {
        let id = CommunicatorId(u32::try_from(communicator).unwrap_or(u32::MAX));
        let calls: Vec<Vec<Call<'_>>> =
            units.iter().map(|units| calls(instance, units, communicator)).collect();
        for rank in 0..instance.ranks() {
            let first = instance.members(id, rank).ok().and_then(|all| all.first()).copied();
            let Some(first) = first else { continue };
            if calls[rank] != calls[first] {
                for check in [Check::Agreement, Check::CollectiveOrder] {
                    outcome.note(check, || {
                        format!("rank {first}: {:?}, rank {rank}: {:?}", calls[first], calls[rank])
                    });
                }
            }
            let own = grouped(&units[rank], communicator);
            if !grouped(&units[first], communicator).iter().zip(&own).all(|(a, b)| a == b) {
                outcome.note(Check::Groups, || {
                    format!("ranks {first} and {rank} group their collectives differently")
                });
            }
        }
    }
}

/// Of each collective of a communicator, the group that it is in: see [`with`].
fn grouped(units: &[Unit], communicator: usize) -> Vec<(usize, usize)> {
    (0..units.len())
        .flat_map(|unit| {
            let (first, many) = with(units, unit, communicator);
            vec![(first, many); many]
        })
        .collect()
}

/// The collectives of a communicator in a unit: how many came before it, and how many are in it.
pub(super) fn with(units: &[Unit], unit: usize, communicator: usize) -> (usize, usize) {
    let many = |unit: &Unit| {
        let own = unit.ops.iter().filter(|op| op.among == Some(communicator));
        own.filter(|op| matches!(op.act, Act::Collective { .. })).count()
    };
    (units[..unit].iter().map(many).sum(), many(&units[unit]))
}

fn calls<'a>(instance: &'a Instance<'_>, units: &[Unit], communicator: usize) -> Vec<Call<'a>> {
    let ops = units.iter().flat_map(|unit| &unit.ops);
    let ops = ops.filter(|op| op.among == Some(communicator));
    ops.filter_map(|op| match &op.act {
        Act::Collective { kind, root, send, recv, count } => {
            let span = send.as_ref().or(recv.as_ref());
            Some(Call {
                name: kind.name(),
                reduction: kind.reduction(),
                root: *root,
                element: span.map(|span| &instance.plan.buffers[span.buffer].element),
                count: *count,
            })
        }
        _ => None,
    })
    .collect()
}
