//! Which launches become kernels of this library's own.
//!
//! Groups of all_reduces, where the cost model says that a kernel takes less time than NCCL's group. All ranks
//! decide alike: from the calls of all of them.

use std::collections::HashMap;

use super::schedule::{Call, Operation, Schedule, WhyKernel, Work};
use crate::cost::{Groups, Topology};
use crate::draw::Links;
use crate::ir::{CollectiveKind, CommunicatorId, ElementType, Plan, Reduction};

/// A kernel takes so many operations.
pub const MOST_IN_A_KERNEL: usize = 96;

/// So many ranks at most reach each other's memory.
pub const MOST_RANKS_OF_A_KERNEL: usize = 32;

/// What all ranks see of a call that could be kernels: which collective of the communicator is its first, and
/// what each operation is.
type Seen = (usize, Vec<(ElementType, Reduction, u64)>);

/// A call that becomes kernels.
struct Choice {
    call: usize,
    seen: Seen,
    kernels: Vec<Vec<Operation>>,
}

impl Schedule {
    /// The same calls, with kernels of this library's own in place of NCCL's groups of all_reduces where
    /// `topology` says that they take less time; unchanged if the plan does without. For ranks that reach each
    /// other's memory. The elements of type parameters count as four bytes.
    ///
    /// A kernel stands in the order of its stream, NCCL's operations in that of their communicator too. So
    /// communicators are left as they are that a plan uses on several streams, as are those of some of the ranks.
    #[must_use]
    pub fn with_kernels(mut self, plan: &Plan, topology: &Topology) -> Self {
        if !plan.kernels || self.ranks.len() < 2 || self.ranks.len() > MOST_RANKS_OF_A_KERNEL {
            return self;
        }
        let mut chosen: Vec<Vec<Choice>> = self.ranks.iter().map(|_| Vec::new()).collect();
        let mut why = Vec::new();
        for among in (0..).map(CommunicatorId).take(plan.communicators.len()) {
            let is_whole = plan.communicators[among.index()].axes.len() == plan.axes.len();
            if !is_whole || !self.is_on_one_stream(among) {
                continue;
            }
            let (found, told) = self.choose(plan, topology, among);
            let seen = |rank: &[Choice]| -> Vec<Seen> {
                rank.iter().map(|choice| choice.seen.clone()).collect()
            };
            // Ranks whose groups differ launch nothing together.
            if found.windows(2).all(|pair| seen(&pair[0]) == seen(&pair[1])) {
                chosen.iter_mut().zip(found).for_each(|(all, found)| all.extend(found));
                why.extend(told);
            }
        }
        for (rank, mut choices) in self.ranks.iter_mut().zip(chosen) {
            choices.sort_by_key(|choice| choice.call);
            let mut choices = choices.into_iter().peekable();
            let calls = std::mem::take(&mut rank.calls);
            for (at, call) in calls.into_iter().enumerate() {
                match choices.next_if(|choice| choice.call == at) {
                    Some(choice) => rank.calls.extend(split(call, choice.kernels)),
                    None => rank.calls.push(call),
                }
            }
        }
        self.why_kernels = why;
        self
    }

    fn is_on_one_stream(&self, among: CommunicatorId) -> bool {
        let calls = self.ranks.iter().flat_map(|rank| &rank.calls);
        let uses = |call: &&Call| call.work.operations().iter().any(|op| op.among() == among);
        let mut streams = calls.filter(uses).map(|call| call.stream);
        let first = streams.next();
        streams.all(|stream| Some(stream) == first)
    }

    /// Of each rank, the calls of a communicator that become kernels; and why, or why not.
    fn choose(
        &self,
        plan: &Plan,
        topology: &Topology,
        among: CommunicatorId,
    ) -> (Vec<Vec<Choice>>, Vec<WhyKernel>) {
        let links = Links::new(plan, self);
        let mut groups = Groups::new(plan, topology, &links);
        let mut why: Vec<WhyKernel> = Vec::new();
        let ranks = (0..).zip(&self.ranks).map(|(rank, of)| {
            let (mut choices, mut collectives) = (Vec::new(), 0);
            for (at, call) in of.calls.iter().enumerate() {
                let operations = call.work.operations();
                let first = collectives;
                let is_own = |op: &&Operation| {
                    matches!(op, Operation::Collective { among: own, .. } if *own == among)
                };
                collectives += operations.iter().filter(is_own).count();
                let Some(seen) = seen(plan, operations, among) else { continue };
                let kernels = kinds(operations, &seen);
                let by_nccl = groups.takes(rank, operations);
                let own: Option<f64> = kernels.iter().map(|one| groups.kernel(rank, one)).sum();
                if rank == 0 {
                    let at = call.from.first().copied().unwrap_or_default();
                    why.push(told(at, &kernels, operations.len(), own, by_nccl));
                }
                if own.is_some_and(|own| own < by_nccl) {
                    choices.push(Choice { call: at, seen: (first, seen), kernels });
                }
            }
            choices
        });
        let ranks = ranks.collect();
        (ranks, why)
    }
}

fn told(
    at: crate::ir::Location,
    kernels: &[Vec<Operation>],
    operations: usize,
    own: Option<f64>,
    by_nccl: f64,
) -> WhyKernel {
    let micros = |seconds: f64| format!("{:.1} us", seconds * 1e6);
    let nccl = if operations == 1 { "NCCL's kernel" } else { "NCCL's group" };
    let these = match operations {
        1 => "an all_reduce".to_owned(),
        many => format!("{many} all_reduces"),
    };
    let chosen = own.is_some_and(|own| own < by_nccl);
    let why = match (own, kernels.len()) {
        (None, _) => format!("{these} of more bytes than kernels take: {nccl}"),
        (Some(own), 1) if chosen => {
            format!("one kernel for {these}: about {}, {nccl} {}", micros(own), micros(by_nccl))
        }
        (Some(own), many) if chosen => {
            format!("{many} kernels for {these}: about {}, {nccl} {}", micros(own), micros(by_nccl))
        }
        (Some(own), _) => {
            format!("{nccl} for {these}: about {}, kernels {}", micros(by_nccl), micros(own))
        }
    };
    WhyKernel { at, chosen, why }
}

/// What all ranks see of operations that kernels can do; none if they are not all such.
fn seen(
    plan: &Plan,
    operations: &[Operation],
    among: CommunicatorId,
) -> Option<Vec<(ElementType, Reduction, u64)>> {
    if operations.is_empty() {
        return None;
    }
    let one = |operation: &Operation| match operation {
        Operation::Collective {
            kind: CollectiveKind::AllReduce(by),
            among: own,
            send: Some(send),
            recv: Some(_),
            ..
        } if *own == among => {
            let element = plan.buffers.get(send.buffer as usize)?.element.clone();
            let is_known = !matches!(element, ElementType::F8E4M3 | ElementType::F8E5M2);
            (is_known && send.end > send.start).then(|| (element, *by, send.end - send.start))
        }
        _ => None,
    };
    operations.iter().map(one).collect()
}

/// The operations of each launch: of one element type and one reduction, in order.
fn kinds(operations: &[Operation], seen: &[(ElementType, Reduction, u64)]) -> Vec<Vec<Operation>> {
    let (mut kernels, mut open): (Vec<Vec<Operation>>, HashMap<_, usize>) = Default::default();
    for (operation, (element, by, _)) in operations.iter().zip(seen) {
        let at = *open.entry((element, *by)).or_insert(kernels.len());
        let at = if kernels.get(at).is_none_or(|kernel| kernel.len() == MOST_IN_A_KERNEL) {
            open.insert((element, *by), kernels.len());
            kernels.push(Vec::new());
            kernels.len() - 1
        } else {
            at
        };
        kernels[at].push(operation.clone());
    }
    kernels
}

/// A call as several: the first waits for what it waited for, the last is what is waited for.
fn split(call: Call, kernels: Vec<Vec<Operation>>) -> impl Iterator<Item = Call> {
    let last = kernels.len().saturating_sub(1);
    kernels.into_iter().enumerate().map(move |(at, kernel)| Call {
        waits: if at == 0 { call.waits.clone() } else { Vec::new() },
        carried: if at == 0 { call.carried.clone() } else { Vec::new() },
        records: call.records.filter(|_| at == last),
        work: Work::Kernel(kernel),
        ..call.clone()
    })
}
