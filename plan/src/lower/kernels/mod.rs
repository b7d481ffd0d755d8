//! Chooses launches to replace by this library's own kernels.
//!
//! The candidates are small all_reduces, all_to_alls and messages for which the cost model predicts
//! that a kernel is faster than NCCL. All ranks decide alike, from the calls of all of them.

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

/// The most operations of a kernel.
pub const MOST_IN_A_KERNEL: usize = 96;

/// The most ranks that reach each other's memory.
pub const MOST_RANKS_OF_A_KERNEL: usize = 32;

/// A communicator and its ranks.
#[derive(Clone, PartialEq, Eq)]
struct Among {
    id: CommunicatorId,
    ranks: Vec<u32>,
}

impl Schedule {
    /// Replaces NCCL's launches by this library's own kernels if they are faster according to
    /// `topology`; a plan without kernels is unchanged. For ranks that reach each other's memory.
    /// Elements of type parameters count as four bytes.
    ///
    /// All_reduces and all_to_alls that could share a group share a kernel, also on windows, where
    /// NCCL would not fuse them. Messages become a kernel if each rank of their communicator has a
    /// group of one statement, and all of them go from one of those groups to another.
    ///
    /// Kernels are ordered only by their stream, NCCL's operations also by their communicator. So
    /// communicators that a plan uses on several streams are unchanged, and so are plans that leave
    /// the order of several communicators to NCCL.
    #[must_use]
    pub fn with_kernels(self, plan: &Plan, topology: &Topology) -> Self {
        self.with_kernels_of(plan, topology, |_, _| true)
    }

    /// [`with_kernels`](Self::with_kernels) for communicators that have kernels, identified by
    /// their index in the plan and their first rank.
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

    /// Candidates for kernels, with the decision.
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
