//! Whether the ranks' recordings fit together: compared once, when all have recorded.
//!
//! Every rank finds the same from the same parts, so either all have a graph or none. Signals are played
//! through as NCCL has them in graphs: a rank raises its next signal to a rank only when that one has
//! awaited the last.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::tape::{Kernel, Step, lend};
use crate::backend::{
    Backend, Collective, Half, KernelWork, NOBODY, Op, Put, Slot, Transfer, WindowId,
};
use crate::error::{Call, Operation};
use crate::{Rank, ReductionName};

/// What a rank says that it recorded, or why it could not.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Said {
    refused: Option<String>,
    collectives: Vec<String>,
    moves: Vec<Move>,
    /// The windows and the device communicators that it names.
    pub(super) names: Vec<WindowId>,
}

/// Half of something between two ranks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Move {
    Send { to: usize, what: String },
    Recv { from: usize, what: String },
    Raise { to: usize, slot: Slot },
    Await { from: usize, slot: Slot },
}

impl Said {
    pub(super) fn refuses(why: String) -> Self {
        Self { refused: Some(why), ..Self::default() }
    }

    pub(super) fn of<B: Backend>(comm: &B::Comm, steps: &[Step<B>], names: Vec<WindowId>) -> Self {
        let mut said = Self { names, ..Self::default() };
        for step in steps {
            let kept = match step {
                Step::Operations(kept, _) => kept,
                Step::Kernel(kernel) => {
                    said.add_kernel(kernel);
                    continue;
                }
                Step::Work(_) => continue,
            };
            // One-sided operations of a group come first.
            let (first, rest): (Vec<_>, Vec<_>) = kept.iter().map(lend).partition(Op::is_one_sided);
            first.iter().chain(&rest).for_each(|op| said.add(comm, op));
        }
        said
    }

    /// Says one more operation.
    pub(crate) fn add<B: Backend>(&mut self, comm: &B::Comm, op: &Op<'_, B>) {
        let essence = |call: &Call| essence(call) + B::memory_of(comm, op);
        let one = match op {
            Op::Collective(Collective { call, config, .. }) => {
                let config = config.map_or_else(String::new, |config| config.said());
                return self.collectives.push(essence(call) + &config);
            }
            Op::Transfer(Transfer { half: Half::SendTo, call, peer, .. }) => {
                Move::Send { to: peer.index(), what: essence(call) }
            }
            Op::Transfer(Transfer { half: Half::RecvFrom, call, peer, .. }) => {
                Move::Recv { from: peer.index(), what: essence(call) }
            }
            Op::Put(Put { peer, slot, to, .. }) => {
                self.names.push(to.window);
                Move::Raise { to: peer.index(), slot: *slot }
            }
            Op::Signal(signal) => Move::Raise { to: signal.peer.index(), slot: signal.slot },
            Op::Wait(wait) => Move::Await { from: wait.peer.index(), slot: wait.slot },
        };
        self.moves.push(one);
    }

    /// A kernel counts as the collective that it is, or as messages of its pieces.
    fn add_kernel<B: Backend>(&mut self, kernel: &Kernel<B>) {
        let Kernel { call, work, pieces, .. } = kernel;
        let what = |call: &Call| essence(call) + ", by a kernel of this library";
        if !matches!(call.operation, Operation::SendTo) {
            let how = match work {
                KernelWork::AllReduce(_, way) => format!(" ({way:?})"),
                KernelWork::AllReduceRmsNorm { width, .. } => format!(" (RMSNorm of {width})"),
                KernelWork::Messages => String::new(),
            };
            return self.collectives.push(what(call) + &how);
        }
        for piece in pieces {
            let what = || what(&Call { count: piece.count, ..*call });
            if piece.to != NOBODY {
                self.moves.push(Move::Send { to: piece.to.into(), what: what() });
            }
            if piece.from != NOBODY {
                self.moves.push(Move::Recv { from: piece.from.into(), what: what() });
            }
        }
    }

    /// What it says, for who compares it with the others.
    fn text(&self, differ: usize) -> String {
        if let Some(why) = &self.refused {
            return format!("could not: {why}");
        }
        let (n, next) = (self.collectives.len(), self.collectives.get(differ));
        let next = next.map_or("none", String::as_str);
        format!("{n} collectives, of which number {} is {next}", differ + 1)
    }
}

/// What of a call is the same on all ranks.
fn essence(call: &Call) -> String {
    let Call { operation, dtype, count, reduction, root, .. } = call;
    let what = match operation {
        Operation::SendTo | Operation::RecvFrom => String::new(),
        other => format!("{other} of "),
    };
    let reduction =
        reduction.map_or(String::new(), |reduction: ReductionName| format!(", {reduction}"));
    let root = root.map_or(String::new(), |root: Rank| format!(", root {root}"));
    format!("{what}{count} {dtype}{reduction}{root}")
}

/// Why the ranks' recordings do not fit together, rank by rank.
pub(super) fn differ(all: &[Said]) -> Option<Vec<String>> {
    let first_other = (0..).find(|&at| {
        let one = |said: &Said| said.collectives.get(at).cloned();
        all.iter().any(|said| one(said) != one(&all[0])) || one(&all[0]).is_none()
    });
    let at = first_other.unwrap_or(0);
    let is_equal =
        all.iter().all(|said| said.refused.is_none() && said.collectives.get(at).is_none());
    if !is_equal {
        return Some(all.iter().map(|said| said.text(at)).collect());
    }
    transfers(all).or_else(|| signals(all))
}

/// The k-th send of a pair meets the k-th receive.
fn transfers(all: &[Said]) -> Option<Vec<String>> {
    let mut told = vec![String::new(); all.len()];
    for (from, sender) in all.iter().enumerate() {
        for (to, receiver) in all.iter().enumerate() {
            let sends: Vec<_> = sender
                .moves
                .iter()
                .filter_map(|one| match one {
                    Move::Send { to: peer, what } if *peer == to => Some(what),
                    _ => None,
                })
                .collect();
            let recvs: Vec<_> = receiver
                .moves
                .iter()
                .filter_map(|one| match one {
                    Move::Recv { from: peer, what } if *peer == from => Some(what),
                    _ => None,
                })
                .collect();
            if sends != recvs {
                told[from] = format!("sends {sends:?} to rank {to}");
                told[to] = match from == to {
                    true => format!("sends {sends:?} to itself and receives {recvs:?}"),
                    false => format!("receives {recvs:?} from rank {from}"),
                };
                return Some(fill(told));
            }
        }
    }
    None
}

/// Plays the signals through: what is left of them, or who waits for whom.
fn signals(all: &[Said]) -> Option<Vec<String>> {
    let one_sided = |one: &&Move| matches!(one, Move::Raise { .. } | Move::Await { .. });
    let mut left: Vec<VecDeque<&Move>> =
        all.iter().map(|said| said.moves.iter().filter(one_sided).collect()).collect();
    let mut raised: HashMap<(usize, usize, Slot), bool> = HashMap::new();
    loop {
        let mut moved = false;
        for (own, moves) in left.iter_mut().enumerate() {
            while let Some(next) = moves.front() {
                let (cell, raises) = match **next {
                    Move::Raise { to, slot } => ((own, to, slot), true),
                    Move::Await { from, slot } => ((from, own, slot), false),
                    Move::Send { .. } | Move::Recv { .. } => break,
                };
                let cell = raised.entry(cell).or_default();
                if *cell == raises {
                    break;
                }
                *cell = raises;
                moves.pop_front();
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let mut told: Vec<String> = left.iter().map(|moves| match moves.front() {
        Some(Move::Raise { to, .. }) => format!(
            "would wait to raise another signal at rank {to}, which has not awaited the last one"
        ),
        Some(Move::Await { from, .. }) => {
            format!("would wait for a signal of rank {from}, which has none to raise by then")
        }
        _ => String::new(),
    }).collect();
    let surplus =
        raised.iter().filter(|(_, raised)| **raised).map(|((from, to, _), _)| (*from, *to));
    if let Some((from, to)) = surplus.min().filter(|(from, _)| told[*from].is_empty()) {
        told[from] = format!("raises a signal at rank {to} that nobody awaits in the graph");
    }
    told.iter().any(|told| !told.is_empty()).then(|| fill(told))
}

/// Ranks of which there is nothing to say.
fn fill(told: Vec<String>) -> Vec<String> {
    told.into_iter().map(|told| if told.is_empty() { "fits".to_owned() } else { told }).collect()
}

#[cfg(test)]
mod tests {
    use super::{Move, Said, signals};
    use crate::backend::Slot;

    fn plays(ranks: &[&[Move]]) -> bool {
        let said = |moves: &&[Move]| Said { moves: moves.to_vec(), ..Said::default() };
        let all: Vec<Said> = ranks.iter().map(said).collect();
        signals(&all).is_none()
    }

    #[test]
    fn signals_are_raised_and_awaited_in_turns() {
        let slot = Slot::at(0, 0);
        let raise = |to| Move::Raise { to, slot };
        let wait = |from| Move::Await { from, slot };
        assert!(plays(&[&[raise(1), wait(1)], &[raise(0), wait(0)]]));
        assert!(plays(&[&[raise(1), raise(1)], &[wait(0), wait(0)]]));
        // A pipeline around a ring of three.
        let ring = |next, before| [raise(next), wait(before), raise(next), wait(before)];
        assert!(plays(&[&ring(1, 2), &ring(2, 0), &ring(0, 1)]));
        // Two puts and one wait; none; a circle.
        assert!(!plays(&[&[raise(1), raise(1)], &[wait(0)]]));
        assert!(!plays(&[&[raise(1)], &[]]));
        assert!(!plays(&[&[], &[wait(0)]]));
        let greedy = |other| [raise(other), raise(other), wait(other), wait(other)];
        assert!(!plays(&[&greedy(1), &greedy(0)]));
        assert!(!plays(&[&[wait(1), raise(1)], &[wait(0), raise(0)]]));
    }
}
