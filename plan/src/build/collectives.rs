//! Collectives: every member of the communicator takes part.

use super::memory::Part;
use super::number::Number;
use super::on::On;
use crate::element::SameElement;
use crate::ir::{Collective, CollectiveKind, Reduction, Region, StepKind};

impl On<'_> {
    /// Combines every rank's `send`, and every rank receives the result.
    #[track_caller]
    pub fn all_reduce<A: Part, B: Part>(&mut self, send: A, recv: B, by: impl Into<Reduction>)
    where
        B::Element: SameElement<A::Element>,
    {
        self.collective(CollectiveKind::AllReduce(by.into()), send, recv);
    }

    /// Combines every rank's `x` in place.
    #[track_caller]
    pub fn all_reduce_in_place(&mut self, x: impl Part, by: impl Into<Reduction>) {
        self.all_reduce(x, x, by);
    }

    /// Every rank receives the root's `send`. The root is a rank of the communicator.
    #[track_caller]
    pub fn broadcast<A: Part, B: Part>(&mut self, send: A, recv: B, root: impl Into<Number>)
    where
        B::Element: SameElement<A::Element>,
    {
        let root = self.plan.expr(root.into());
        self.collective(CollectiveKind::Broadcast(root), send, recv);
    }

    /// Every rank receives the root's `x` in place.
    #[track_caller]
    pub fn broadcast_in_place(&mut self, x: impl Part, root: impl Into<Number>) {
        self.broadcast(x, x, root);
    }

    /// Combines every rank's `send`, and the root receives the result.
    #[track_caller]
    pub fn reduce<A: Part, B: Part>(
        &mut self,
        send: A,
        recv: B,
        by: impl Into<Reduction>,
        root: impl Into<Number>,
    ) where
        B::Element: SameElement<A::Element>,
    {
        let root = self.plan.expr(root.into());
        self.collective(CollectiveKind::Reduce(by.into(), root), send, recv);
    }

    /// Every rank receives all ranks' `send`, concatenated. In place, `send` is this rank's part of
    /// `recv`.
    #[track_caller]
    pub fn all_gather<A: Part, B: Part>(&mut self, send: A, recv: B)
    where
        B::Element: SameElement<A::Element>,
    {
        self.collective(CollectiveKind::AllGather, send, recv);
    }

    /// Combines every rank's `send`, and each rank receives its part of the result. In place,
    /// `recv` is this rank's part of `send`.
    #[track_caller]
    pub fn reduce_scatter<A: Part, B: Part>(&mut self, send: A, recv: B, by: impl Into<Reduction>)
    where
        B::Element: SameElement<A::Element>,
    {
        self.collective(CollectiveKind::ReduceScatter(by.into()), send, recv);
    }

    /// Part q of rank p's `send` becomes part p of rank q's `recv`.
    #[track_caller]
    pub fn all_to_all<A: Part, B: Part>(&mut self, send: A, recv: B)
    where
        B::Element: SameElement<A::Element>,
    {
        self.collective(CollectiveKind::AllToAll, send, recv);
    }

    /// The root receives all ranks' `send`, concatenated.
    #[track_caller]
    pub fn gather<A: Part, B: Part>(&mut self, send: A, recv: B, root: impl Into<Number>)
    where
        B::Element: SameElement<A::Element>,
    {
        let root = self.plan.expr(root.into());
        self.collective(CollectiveKind::Gather(root), send, recv);
    }

    /// Each rank receives its part of the root's `send`.
    #[track_caller]
    pub fn scatter<A: Part, B: Part>(&mut self, send: A, recv: B, root: impl Into<Number>)
    where
        B::Element: SameElement<A::Element>,
    {
        let root = self.plan.expr(root.into());
        self.collective(CollectiveKind::Scatter(root), send, recv);
    }

    #[track_caller]
    fn collective(&mut self, kind: CollectiveKind, send: impl Part, recv: impl Part) {
        let (send, recv): (Region, Region) = (self.plan.region(send), self.plan.region(recv));
        let (among, place) = (self.among, self.place.clone());
        self.plan.push(StepKind::Collective(Collective { kind, send, recv, among, place }));
    }
}
