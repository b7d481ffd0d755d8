//! Collectives: every member of the communicator takes part.

use super::element::SameElement;
use super::memory::Part;
use super::number::Number;
use super::on::On;
use crate::ir::{Collective, CollectiveKind, Reduction, Region, StepKind};

impl On<'_> {
    /// Everyone's `send`, combined, is what everyone receives.
    #[track_caller]
    pub fn all_reduce<A, B>(&mut self, send: A, recv: B, by: impl Into<Reduction>)
    where
        A: Part,
        B: Part,
        B::Element: SameElement<A::Element>,
    {
        self.collective(CollectiveKind::AllReduce(by.into()), send, recv);
    }

    /// Everyone's `x`, combined, in its place.
    #[track_caller]
    pub fn all_reduce_in_place(&mut self, x: impl Part, by: impl Into<Reduction>) {
        self.all_reduce(x, x, by);
    }

    /// The root's `send` is what everyone receives. The root is a rank of the communicator.
    #[track_caller]
    pub fn broadcast<A, B>(&mut self, send: A, recv: B, root: impl Into<Number>)
    where
        A: Part,
        B: Part,
        B::Element: SameElement<A::Element>,
    {
        let root = self.plan.expr(root.into());
        self.collective(CollectiveKind::Broadcast(root), send, recv);
    }

    /// The root's `x`, in everyone's.
    #[track_caller]
    pub fn broadcast_in_place(&mut self, x: impl Part, root: impl Into<Number>) {
        self.broadcast(x, x, root);
    }

    /// Everyone's `send`, combined, is what the root receives.
    #[track_caller]
    pub fn reduce<A, B>(
        &mut self,
        send: A,
        recv: B,
        by: impl Into<Reduction>,
        root: impl Into<Number>,
    ) where
        A: Part,
        B: Part,
        B::Element: SameElement<A::Element>,
    {
        let root = self.plan.expr(root.into());
        self.collective(CollectiveKind::Reduce(by.into(), root), send, recv);
    }

    /// Everyone's `send`, one after another, is what everyone receives. In place, `send` is this rank's part
    /// of `recv`.
    #[track_caller]
    pub fn all_gather<A, B>(&mut self, send: A, recv: B)
    where
        A: Part,
        B: Part,
        B::Element: SameElement<A::Element>,
    {
        self.collective(CollectiveKind::AllGather, send, recv);
    }

    /// Everyone's `send`, combined, of which everyone receives its part. In place, `recv` is this rank's part
    /// of `send`.
    #[track_caller]
    pub fn reduce_scatter<A, B>(&mut self, send: A, recv: B, by: impl Into<Reduction>)
    where
        A: Part,
        B: Part,
        B::Element: SameElement<A::Element>,
    {
        self.collective(CollectiveKind::ReduceScatter(by.into()), send, recv);
    }

    /// Part number q of rank p's `send` is part number p of rank q's `recv`.
    #[track_caller]
    pub fn all_to_all<A, B>(&mut self, send: A, recv: B)
    where
        A: Part,
        B: Part,
        B::Element: SameElement<A::Element>,
    {
        self.collective(CollectiveKind::AllToAll, send, recv);
    }

    /// Everyone's `send`, one after another, is what the root receives.
    #[track_caller]
    pub fn gather<A, B>(&mut self, send: A, recv: B, root: impl Into<Number>)
    where
        A: Part,
        B: Part,
        B::Element: SameElement<A::Element>,
    {
        let root = self.plan.expr(root.into());
        self.collective(CollectiveKind::Gather(root), send, recv);
    }

    /// Of the root's `send`, everyone receives its part.
    #[track_caller]
    pub fn scatter<A, B>(&mut self, send: A, recv: B, root: impl Into<Number>)
    where
        A: Part,
        B: Part,
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
