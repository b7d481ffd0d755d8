//! How a plan is launched, and its claims about regions and results.

use super::memory::Part;
use super::{Open, PlanBuilder};
use crate::element::SameElement;
use crate::ir::{CollectiveKind, Coverage, Launch, Order, Postcondition, Version};

impl PlanBuilder<Open> {
    /// Captures the whole plan into one CUDA graph, which is replayed.
    pub fn captured(&mut self) {
        self.plan.launch = Launch::Captured;
    }

    /// Uses only NCCL, and none of this library's own kernels, which are faster for small
    /// operations between GPUs that reach each other's memory.
    pub fn without_kernels(&mut self) {
        self.plan.kernels = false;
    }

    /// Runs the plan only once, so that one run is not checked against the next.
    pub fn once(&mut self) {
        self.plan.replayed = false;
    }

    /// The oldest NCCL that the plan supports.
    pub fn target(&mut self, major: u16, minor: u16, patch: u16) {
        self.plan.target = Version(major, minor, patch);
    }

    /// Lets NCCL order operations of several communicators by the host's calls, with
    /// `NCCL_LAUNCH_ORDER_IMPLICIT=1` (2.26 and later), so that the plan need not.
    pub fn launch_order_is_implicit(&mut self) {
        self.plan.order = Order::Implicit;
    }

    /// Claims that transfers and puts fill this region on every rank, each element once.
    #[track_caller]
    pub fn covers(&mut self, region: impl Part) {
        let (at, region) = (self.here(), self.region(region));
        self.plan.covers.push(Coverage { region, at });
    }

    /// Claims that the plan leaves in `recv` what this collective over all ranks would, given the
    /// content of `send` at the start.
    #[track_caller]
    pub fn computes<A: Part, B: Part>(&mut self, kind: CollectiveKind, send: A, recv: B)
    where
        B::Element: SameElement<A::Element>,
    {
        let (at, send, recv) = (self.here(), self.region(send), self.region(recv));
        self.plan.computes.push(Postcondition { kind, send, recv, at });
    }
}
