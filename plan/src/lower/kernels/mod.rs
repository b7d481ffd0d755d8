//! Which launches become kernels of this library's own.
//!
//! Small all_reduces, all_to_alls and messages, where the cost model says that a kernel takes less time than
//! NCCL. All ranks decide alike: from the calls of all of them.

mod apply;
mod joins;
mod legs;
mod stretch;
mod told;

pub use legs::Leg;

use super::schedule::{Call, Operation, Schedule};
use crate::cost::{Groups, Topology};
use crate::draw::{Clock, Links, Steps};
use crate::ir::{CommunicatorId, Order, Plan};
use stretch::{Choice, Stretch, stretches};

/// A kernel takes so many operations.
pub const MOST_IN_A_KERNEL: usize = 96;

/// So many ranks at most reach each other's memory.
pub const MOST_RANKS_OF_A_KERNEL: usize = 32;

/// A communicator, and its ranks.
#[derive(Clone, PartialEq, Eq)]
struct Among {
    id: CommunicatorId,
    ranks: Vec<u32>,
}

impl Schedule {
    /// The same operations, with kernels of this library's own in place of NCCL's launches where `topology` says
    /// that they take less time; unchanged if the plan does without. For ranks that reach each other's memory. The
    /// elements of type parameters count as four bytes.
    ///
    /// All_reduces and all_to_alls that could share a group share a kernel, on windows too, where NCCL would not
    /// fuse them. Messages are a kernel's where each rank of their communicator has a group of one statement, and
    /// all of them go from one of those groups to another.
    ///
    /// A kernel stands in the order of its stream, NCCL's operations in that of their communicator too. So
    /// communicators are left as they are that a plan uses on several streams, and plans that leave the order of
    /// several communicators to NCCL.
    #[must_use]
    pub fn with_kernels(self, plan: &Plan, topology: &Topology) -> Self {
        self.with_kernels_of(plan, topology, |_, _| true)
    }

    /// [`with_kernels`](Self::with_kernels) for those communicators that have them, which are told by their place in
    /// the plan and their first rank.
    #[must_use]
    pub fn with_kernels_of(
        self,
        plan: &Plan,
        topology: &Topology,
        has: impl Fn(CommunicatorId, u32) -> bool,
    ) -> Self {
        if !plan.kernels || (plan.order == Order::Implicit && plan.communicators.len() > 1) {
            return self;
        }
        let mut all = self.look(plan, topology, has);
        let is_of_messages = |one: &Stretch| one.choice == Choice::Kernel && one.is_messages();
        if all.iter().any(|(_, one)| is_of_messages(one)) {
            let with = self.clone().apply(&all);
            if !Clock::new(&Links::new(plan, &with), &Steps).hangs {
                return with;
            }
            for (_, one) in all.iter_mut().filter(|(_, one)| is_of_messages(one)) {
                one.choice = Choice::Circle;
            }
        }
        self.apply(&all)
    }

    /// What could be kernels, and whether it is.
    fn look(
        &self,
        plan: &Plan,
        topology: &Topology,
        has: impl Fn(CommunicatorId, u32) -> bool,
    ) -> Vec<(Among, Stretch)> {
        let links = Links::new(plan, self);
        let mut groups = Groups::new(plan, topology, &links);
        let ids = (0..).map(CommunicatorId).take(plan.communicators.len());
        let all = ids.flat_map(|id| {
            let ranks = 0..self.ranks.len() as u32;
            let first = ranks.filter(|&rank| links.first(id, rank) == rank && has(id, rank));
            let found = first.flat_map(|first| {
                let among = Among { id, ranks: links.members(id, first) };
                let found = match self.may_have_kernels(&among) {
                    true => stretches((self, plan), &links, &among, &mut groups),
                    false => Vec::new(),
                };
                found.into_iter().map(move |one| (among.clone(), one))
            });
            found.collect::<Vec<_>>()
        });
        all.collect()
    }

    fn may_have_kernels(&self, among: &Among) -> bool {
        let calls = among.ranks.iter().flat_map(|&rank| &self.ranks[rank as usize].calls);
        let mut streams = calls.filter(|call| call.is_among(among.id)).map(|call| call.stream);
        let first = streams.next();
        (2..=MOST_RANKS_OF_A_KERNEL).contains(&among.ranks.len())
            && streams.all(|stream| Some(stream) == first)
    }
}

impl Call {
    fn is_among(&self, id: CommunicatorId) -> bool {
        self.work.operations().iter().any(|one: &Operation| one.among() == id)
    }
}
