//! How a plan is launched, and what it says it fills and computes.

use super::element::SameElement;
use super::memory::Part;
use super::{Open, PlanBuilder};
use crate::ir::{CollectiveKind, Coverage, Launch, Order, Postcondition, Version};

impl PlanBuilder<Open> {
    /// The plan is captured once as a CUDA graph, all of it, and replayed.
    pub fn captured(&mut self) {
        self.plan.launch = Launch::Captured;
    }

    /// NCCL does everything: no kernel of this library's own, which would take less time for small operations
    /// between GPUs that reach each other's memory.
    pub fn without_kernels(&mut self) {
        self.plan.kernels = false;
    }

    /// The plan runs once: one run is not checked against the next.
    pub fn once(&mut self) {
        self.plan.replayed = false;
    }

    /// The oldest NCCL that the plan is for.
    pub fn target(&mut self, major: u16, minor: u16, patch: u16) {
        self.plan.target = Version(major, minor, patch);
    }

    /// NCCL orders operations of several communicators by the order of the host's calls, where
    /// `NCCL_LAUNCH_ORDER_IMPLICIT=1` is set (2.26 and later): the plan need not.
    pub fn launch_order_is_implicit(&mut self) {
        self.plan.order = Order::Implicit;
    }

    /// The plan says that transfers and puts fill this region on every rank, each element once.
    #[track_caller]
    pub fn covers(&mut self, region: impl Part) {
        let (at, region) = (self.here(), self.region(region));
        self.plan.covers.push(Coverage { region, at });
    }

    /// The plan says that what it leaves in `recv` is what this collective over all ranks would, from what was
    /// in `send` when it began.
    #[track_caller]
    pub fn computes<A, B>(&mut self, kind: CollectiveKind, send: A, recv: B)
    where
        A: Part,
        B: Part,
        B::Element: SameElement<A::Element>,
    {
        let (at, send, recv) = (self.here(), self.region(send), self.region(recv));
        self.plan.computes.push(Postcondition { kind, send, recv, at });
    }
}
