//! Local work of this library: copies and reductions within a rank.

use super::memory::Part;
use super::on::On;
use crate::element::SameElement;
use crate::ir::{Assign, Reduction, Region, StepKind};

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

    #[track_caller]
    fn assigned(&mut self, to: Region, by: Reduction, of: Vec<Region>) {
        let place = self.place.clone();
        self.plan.push(StepKind::Assign(Assign { to, by, of, place }));
    }
}
