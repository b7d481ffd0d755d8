//! Local work of this library: copies and reductions within a rank, and of other ranks' windows.

use super::claims::Sources;
use super::memory::Part;
use super::on::On;
use crate::element::SameElement;
use crate::ir::{Assign, Reduction, Region, Source, StepKind};

impl On<'_> {
    /// Copies `from` to `to`: `to = from` in `plan!`. Both have one length, and do not overlap.
    #[track_caller]
    pub fn copy<A: Part, B: Part>(&mut self, from: A, to: B)
    where
        B::Element: SameElement<A::Element>,
    {
        let (from, to) = (self.plan.region(from), self.plan.region(to));
        self.assigned(to, Reduction::Sum, vec![from]);
    }

    /// Reduces `from` into `to`, element by element: `to += from` in `plan!`.
    #[track_caller]
    pub fn update<A: Part, B: Part>(&mut self, to: A, by: impl Into<Reduction>, from: B)
    where
        B::Element: SameElement<A::Element>,
    {
        let (to, from) = (self.plan.region(to), self.plan.region(from));
        self.assigned(to.clone(), by.into(), vec![to, from]);
    }

    /// Makes `to` the reduction of these regions, element by element: `to = max(a, b)` in `plan!`.
    /// One of them may be `to`.
    #[track_caller]
    pub fn assign<A: Part, B: Part>(
        &mut self,
        to: A,
        by: impl Into<Reduction>,
        of: impl IntoIterator<Item = B>,
    ) where
        B::Element: SameElement<A::Element>,
    {
        let to = self.plan.region(to);
        let of = of.into_iter().map(|one| self.plan.region(one)).collect();
        self.assigned(to, by.into(), of);
    }

    /// Makes `to` the reduction of these sources, among them other ranks' windows, which are read
    /// where they lie: `plan.on(net).gathered(v, Sum, |of| of.rank(u, ring(1)))` is `v = u of
    /// (rank + 1) % n` in `plan!`. A single source is copied.
    ///
    /// A rank past the end of a chain is left out; without any source, `to` keeps its content.
    /// Nothing happens at the other ranks, so signals must say when their memory may be read, and
    /// when it has been.
    #[track_caller]
    pub fn gathered<A: Part>(
        &mut self,
        to: A,
        by: impl Into<Reduction>,
        of: impl FnOnce(&mut Sources<'_>),
    ) {
        let (to, place) = (self.plan.region(to), self.place.clone());
        let of = Sources::collect(self.plan, of);
        self.plan.push(StepKind::Assign(Assign { to, by: by.into(), of, place }));
    }

    #[track_caller]
    fn assigned(&mut self, to: Region, by: Reduction, of: Vec<Region>) {
        let place = self.place.clone();
        let of = of.into_iter().map(Source::own).collect();
        self.plan.push(StepKind::Assign(Assign { to, by, of, place }));
    }
}
