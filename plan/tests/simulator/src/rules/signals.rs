//! Signals are raised as often as they are awaited (A11); before 2.31, in the same order too.

use std::collections::HashMap;

use typed_nccl_plan::verdict::Check;

use crate::instance::Instance;
use crate::link::named_signals;
use crate::outcome::Outcome;
use crate::unit::{Act, Unit};

#[derive(Default)]
struct Pair {
    raised: Vec<usize>,
    awaited: Vec<usize>,
}

pub(crate) fn check(instance: &Instance<'_>, units: &[Vec<Unit>], outcome: &mut Outcome) {
    // By communicator, source, target: the signals' names in order.
    let mut pairs: HashMap<(usize, usize, usize), Pair> = HashMap::new();
    for (rank, units) in units.iter().enumerate() {
        for op in units.iter().flat_map(|unit| &unit.ops) {
            let Some(among) = op.among else { continue };
            if let Some((signal, peer)) = op.raises() {
                pairs.entry((among, rank, peer)).or_default().raised.push(signal);
            }
            if let Act::Wait(awaited) = &op.act {
                for &(signal, peer, times) in awaited {
                    let names = std::iter::repeat_n(signal, times as usize);
                    pairs.entry((among, peer, rank)).or_default().awaited.extend(names);
                }
            }
        }
    }
    for ((_, source, target), mut pair) in pairs {
        if named_signals(instance) {
            pair.raised.sort_unstable();
            pair.awaited.sort_unstable();
        }
        let Pair { raised, awaited } = pair;
        if raised != awaited {
            let text = || format!("{source} to {target}: raised {raised:?}, awaited {awaited:?}");
            outcome.note(Check::Signals, text);
        }
    }
}
