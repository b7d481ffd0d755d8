//! Checks that the ranks' recordings fit together, once all ranks have recorded.
//!
//! Every rank sees the same parts and reaches the same answer, so either all ranks have a graph or
//! none has. Signals are simulated with NCCL's rule for graphs: a rank raises its next signal to a
//! peer only after the peer has awaited the last one.

use std::fmt;

use serde::{Deserialize, Serialize};
use typed_nccl_match::{OneSided, Played, channels, play};

use super::recording::{Kernel, Step, lend};
use crate::backend::{
    Backend, Collective, Half, KernelWork, NOBODY, Op, Put, Slot, Transfer, WindowId,
};
use crate::error::{Call, Operation, Signature};

/// A summary of a rank's recording, or why it could not record.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct CaptureSummary {
    refused: Option<String>,
    collectives: Vec<What>,
    /// Each with the peer's rank.
    sends: Vec<(usize, What)>,
    receives: Vec<(usize, What)>,
    /// Each with whether it is raised at the peer; otherwise it is awaited from it.
    signals: Vec<(bool, usize, Slot)>,
    /// The windows and device communicators that the recording uses.
    pub(super) names: Vec<WindowId>,
}

/// The part of a call that must match, and how the backend performs it, for messages.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct What {
    call: Signature,
    how: String,
}

impl CaptureSummary {
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

    /// Adds an operation.
    pub(crate) fn add<B: Backend>(&mut self, comm: &B::Comm, op: &Op<'_, B>) {
        let what =
            |call: &Call| What { call: call.signature(), how: B::memory_of(comm, op).to_owned() };
        let (raises, peer, slot) = match op {
            Op::Collective(Collective { call, config, .. }) => {
                let mut what = what(call);
                what.how += &config.map_or_else(String::new, |config| config.said());
                return self.collectives.push(what);
            }
            Op::Transfer(Transfer { half, call, peer, .. }) => {
                let ends = match half {
                    Half::SendTo => &mut self.sends,
                    Half::RecvFrom => &mut self.receives,
                };
                return ends.push((peer.index(), what(call)));
            }
            Op::Put(Put { peer, slot, to, .. }) => {
                self.names.push(to.window);
                (true, peer, slot)
            }
            Op::Signal(signal) => (true, &signal.peer, &signal.slot),
            Op::Wait(wait) => (false, &wait.peer, &wait.slot),
        };
        self.signals.push((raises, peer.index(), *slot));
    }

    /// Adds a kernel as the collective that it performs, or as the messages of its pieces.
    fn add_kernel<B: Backend>(&mut self, kernel: &Kernel<B>) {
        let Kernel { call, work, pieces, .. } = kernel;
        let what = |call: &Call, how: &str| What {
            call: call.signature(),
            how: format!(", by a kernel of this library{how}"),
        };
        if !matches!(call.operation, Operation::SendTo) {
            let how = match work {
                KernelWork::AllReduce(_, way) => format!(" ({way:?})"),
                KernelWork::AllReduceRmsNorm { width, .. } => format!(" (RMSNorm of {width})"),
                KernelWork::Messages => String::new(),
            };
            return self.collectives.push(what(call, &how));
        }
        for piece in pieces {
            let what = || what(&Call { count: piece.count, ..*call }, "");
            if piece.to != NOBODY {
                self.sends.push((piece.to.into(), what()));
            }
            if piece.from != NOBODY {
                self.receives.push((piece.from.into(), what()));
            }
        }
    }

    /// The summary for a message about a difference at collective `differ`.
    fn text(&self, differ: usize) -> String {
        if let Some(why) = &self.refused {
            return format!("could not: {why}");
        }
        let (n, next) = (self.collectives.len(), self.collectives.get(differ));
        let next = next.map_or_else(|| "none".to_owned(), What::to_string);
        format!("{n} collectives, of which number {} is {next}", differ + 1)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.call, self.how)
    }
}

/// Why the ranks' recordings do not fit together, by rank.
pub(super) fn differ(all: &[CaptureSummary]) -> Option<Vec<String>> {
    let are_alike = |at: usize| {
        let mut calls = all.iter().map(|said| said.collectives.get(at));
        calls.next().flatten().is_some_and(|first| calls.all(|call| call == Some(first)))
    };
    let at = (0..).find(|&at| !are_alike(at)).unwrap_or(0);
    let fits = |said: &CaptureSummary| said.refused.is_none() && said.collectives.len() == at;
    if !all.iter().all(fits) {
        return Some(all.iter().map(|said| said.text(at)).collect());
    }
    transfers(all).or_else(|| signals(all))
}

/// The k-th send of a pair of ranks must match its k-th receive.
fn transfers(all: &[CaptureSummary]) -> Option<Vec<String>> {
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for (own, said) in all.iter().enumerate() {
        sends.extend(said.sends.iter().map(|(to, what)| ((own, *to), what)));
        receives.extend(said.receives.iter().map(|(from, what)| ((*from, own), what)));
    }
    for ends in [&mut sends, &mut receives] {
        ends.retain(|((from, to), _)| from.max(to) < &all.len());
        ends.sort_by_key(|(pair, _)| *pair);
    }
    let (sends, receives) = channels(&sends, &receives).find(|(sends, recvs)| sends != recvs)?;
    let &((from, to), _) = sends.first().or_else(|| receives.first())?;
    let [sends, recvs] = [sends, receives]
        .map(|ends| ends.iter().map(|(_, what)| what.to_string()).collect::<Vec<_>>());
    let mut told = vec![String::new(); all.len()];
    told[from] = format!("sends {sends:?} to rank {to}");
    told[to] = match from == to {
        true => format!("sends {sends:?} to itself and receives {recvs:?}"),
        false => format!("receives {recvs:?} from rank {from}"),
    };
    Some(fill(told))
}

/// Simulates the signals; reports ranks that get stuck, and surplus signals.
fn signals(all: &[CaptureSummary]) -> Option<Vec<String>> {
    let ops = |(own, said): (usize, &CaptureSummary)| {
        let op = |&(raises, peer, slot): &(bool, usize, Slot)| match raises {
            true => OneSided::Raise((own, peer, slot)),
            false => OneSided::Await((peer, own, slot)),
        };
        said.signals.iter().map(op).collect()
    };
    let Played { stuck, surplus } = play(&all.iter().enumerate().map(ops).collect::<Vec<_>>());
    let mut told: Vec<String> = stuck.iter().map(|op| match op {
        Some(OneSided::Raise((_, to, _))) => format!(
            "would wait to raise another signal at rank {to}, which has not awaited the last one"
        ),
        Some(OneSided::Await((from, ..))) => {
            format!("would wait for a signal of rank {from}, which has none to raise by then")
        }
        None => String::new(),
    }).collect();
    let surplus = surplus.iter().map(|(from, to, _)| (*from, *to)).min();
    if let Some((from, to)) = surplus.filter(|(from, _)| told[*from].is_empty()) {
        told[from] = format!("raises a signal at rank {to} that nobody awaits in the graph");
    }
    told.iter().any(|told| !told.is_empty()).then(|| fill(told))
}

/// Fills in ranks without a fault.
fn fill(told: Vec<String>) -> Vec<String> {
    told.into_iter().map(|told| if told.is_empty() { "fits".to_owned() } else { told }).collect()
}
