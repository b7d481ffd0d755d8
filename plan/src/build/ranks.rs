//! The ranks and parameters that a plan supports: axes, sizes, promises, communicators.

use std::ops::{Range, RangeFrom, RangeInclusive};

use super::arena::Stamp;
use super::guard::Guard;
use super::number::{List, Number};
use super::span::Count;
use super::{Open, PlanBuilder, id};
use crate::ir::{self, AxisId, CommunicatorId, Expr, Param, ParamId, Promise, Values};

/// One dimension of the plan's ranks.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub(crate) of: Stamp,
    pub(crate) id: AxisId,
}

/// A communicator of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Communicator {
    pub(crate) of: Stamp,
    pub(crate) id: CommunicatorId,
}

impl Axis {
    /// How many ranks it has.
    pub fn size(self) -> Number {
        Number(self.of.push(Expr::Extent(self.id)))
    }

    /// This rank's index along it, from 0.
    pub fn rank(self) -> Number {
        Number(self.of.push(Expr::Coordinate(self.id)))
    }
}

impl PlanBuilder<Open> {
    /// The ranks of a plan with one axis, which is called `n`, and the permitted number of ranks:
    /// `1..`, `2..=64`, `[2, 4, 8]` or `8`. Returns the number of ranks.
    #[track_caller]
    pub fn ranks(&mut self, values: impl Into<Values>) -> Number {
        self.axis("n", values).size()
    }

    /// Adds a dimension of the plan's ranks, which are numbered with the last one fastest.
    #[track_caller]
    pub fn axis(&mut self, name: &str, extent: impl Into<Values>) -> Axis {
        let at = self.here();
        self.plan.axes.push(ir::Axis { name: name.to_owned(), extent: extent.into(), at });
        let id = AxisId(id(&self.plan.axes));
        // The world, which the builder declared first, has every axis.
        if let Some(world) = self.plan.communicators.first_mut() {
            world.axes.push(id);
        }
        Axis { of: self.stamp(), id }
    }

    /// This rank's number, from 0: the r of expressions.
    pub fn rank(&self) -> Number {
        Number(self.stamp().push(Expr::Rank))
    }

    /// How many ranks there are.
    pub fn size(&self) -> Number {
        Number(self.stamp().push(Expr::Size))
    }

    /// Declares a number that binding supplies.
    #[track_caller]
    pub fn param(&mut self, name: &str, values: impl Into<Values>) -> Number {
        let id = self.parameter(name, values.into(), None);
        Number(self.stamp().push(Expr::Param(id)))
    }

    /// Declares a list of `count` numbers that binding supplies.
    #[track_caller]
    pub fn list(
        &mut self,
        name: &str,
        count: impl Into<Number>,
        values: impl Into<Values>,
    ) -> List {
        let id = self.parameter(name, values.into(), Some(count.into()));
        List { of: self.stamp(), id }
    }

    /// Declares a list of `count` numbers that each run passes, as lengths of messages alone:
    /// `a.slice(begin..begin + counts.at(i))`. Binding supplies the most of each.
    #[track_caller]
    pub fn counts(
        &mut self,
        name: &str,
        count: impl Into<Number>,
        values: impl Into<Values>,
    ) -> List {
        let list = self.list(name, count, values);
        self.plan.counts.push(list.id);
        list
    }

    /// Promises a condition on sizes and parameters: `plan.promise(m.ge(4 * h))`.
    #[track_caller]
    pub fn promise(&mut self, condition: Guard) {
        let (at, condition) = (self.here(), self.condition(condition));
        self.plan.promises.push(Promise { around: Vec::new(), condition, at });
    }

    /// Promises a condition for every number of the range, as on all elements of a list:
    /// `plan.promise_each("i", ..n, |i| counts.at(i).le(capacity))`.
    #[track_caller]
    pub fn promise_each(
        &mut self,
        counter: &str,
        range: impl Count,
        condition: impl FnOnce(Number) -> Guard,
    ) {
        let (each, value) = self.each(counter, range);
        let (at, condition) = (self.here(), self.condition(condition(value)));
        self.plan.promises.push(Promise { around: vec![each], condition, at });
    }

    /// The communicator of all ranks, which operations use unless `among` selects another.
    pub fn world(&self) -> Communicator {
        Communicator { of: self.stamp(), id: CommunicatorId(0) }
    }

    /// A communicator of ranks that differ only along these axes: on a mesh of `nodes` and `local`,
    /// the one along `[local]` consists of the ranks of a node.
    #[track_caller]
    pub fn communicator(
        &mut self,
        name: &str,
        axes: impl IntoIterator<Item = Axis>,
    ) -> Communicator {
        let at = self.here();
        let axes: Vec<Axis> = axes.into_iter().collect();
        for axis in &axes {
            self.belongs(axis.of);
        }
        let mut axes: Vec<AxisId> = axes.into_iter().map(|axis| axis.id).collect();
        axes.sort();
        self.plan.communicators.push(ir::Communicator { name: name.to_owned(), axes, at });
        let id = CommunicatorId(id(&self.plan.communicators));
        Communicator { of: self.stamp(), id }
    }

    #[allow(clippy::manual_map, reason = "a closure would hide the caller")]
    #[track_caller]
    fn parameter(&mut self, name: &str, values: Values, count: Option<Number>) -> ParamId {
        let (at, name) = (self.here(), name.to_owned());
        let count = match count {
            Some(count) => Some(self.expr(count)),
            None => None,
        };
        self.plan.params.push(Param { name, values, count, at });
        ParamId(id(&self.plan.params))
    }
}

impl From<i64> for Values {
    fn from(only: i64) -> Self {
        Self::Exactly(only)
    }
}

impl From<RangeFrom<i64>> for Values {
    fn from(range: RangeFrom<i64>) -> Self {
        Self::AtLeast(range.start)
    }
}

impl From<Range<i64>> for Values {
    fn from(range: Range<i64>) -> Self {
        Self::Range(range.start, range.end.saturating_sub(1))
    }
}

impl From<RangeInclusive<i64>> for Values {
    fn from(range: RangeInclusive<i64>) -> Self {
        Self::Range(*range.start(), *range.end())
    }
}

impl<const N: usize> From<[i64; N]> for Values {
    fn from(list: [i64; N]) -> Self {
        Self::OneOf(list.into())
    }
}

impl From<Vec<i64>> for Values {
    fn from(list: Vec<i64>) -> Self {
        Self::OneOf(list)
    }
}
