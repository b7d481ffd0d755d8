//! Other ranks, seen from rank r.

use super::guard::Guard;
use super::number::Number;
use super::ranks::Axis;
use super::{Open, PlanBuilder};
use crate::ir::{self, AxisId, Cases, Hop};

/// Another rank: [`ring`], [`chain`], [`at`] and [`either`] say which.
#[derive(Clone, Debug)]
#[must_use]
pub struct Peer(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Along(Vec<Step>),
    Rank(Number),
    Cases(Box<(Guard, Peer, Peer)>),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// `None` is the plan's only axis.
    axis: Option<Axis>,
    by: Number,
    wrap: bool,
}

/// The rank `by` places further around the ring of all ranks: `(r + by) % n`. For plans of one axis.
pub fn ring(by: impl Into<Number>) -> Peer {
    along(None, by.into(), true)
}

/// The rank `by` places further along the open chain of all ranks: `r + by`, where it exists; elsewhere the
/// operation is not issued. For plans of one axis.
pub fn chain(by: impl Into<Number>) -> Peer {
    along(None, by.into(), false)
}

/// The rank of that number in the whole plan.
pub fn at(rank: impl Into<Number>) -> Peer {
    Peer(Inner::Rank(rank.into()))
}

/// One rank where a condition holds, another one elsewhere: `either((r % 2).eq(0), ring(1), ring(-1))`.
pub fn either(condition: Guard, then: Peer, otherwise: Peer) -> Peer {
    Peer(Inner::Cases(Box::new((condition, then, otherwise))))
}

fn along(axis: Option<Axis>, by: Number, wrap: bool) -> Peer {
    Peer(Inner::Along(vec![Step { axis, by, wrap }]))
}

impl Axis {
    /// The rank `by` places further around this axis.
    pub fn ring(self, by: impl Into<Number>) -> Peer {
        along(Some(self), by.into(), true)
    }

    /// The rank `by` places further along this axis, where it exists; elsewhere the operation is not issued.
    pub fn chain(self, by: impl Into<Number>) -> Peer {
        along(Some(self), by.into(), false)
    }
}

impl Peer {
    /// And from there along another axis: a diagonal of a mesh.
    pub fn and(mut self, other: Self) -> Self {
        match (&mut self.0, other.0) {
            (Inner::Along(steps), Inner::Along(more)) => {
                steps.extend(more);
                self
            }
            // A rank's number leaves nothing to add, nor do cases.
            (_, absolute) => Self(absolute),
        }
    }
}

impl PlanBuilder<Open> {
    #[track_caller]
    pub(crate) fn peer(&mut self, peer: Peer) -> ir::Peer {
        match peer.0 {
            Inner::Rank(rank) => ir::Peer::Rank(self.expr(rank)),
            Inner::Cases(cases) => {
                let (condition, then, otherwise) = *cases;
                let condition = self.condition(condition);
                let (then, otherwise) = (self.peer(then), self.peer(otherwise));
                ir::Peer::Cases(Box::new(Cases { condition, then, otherwise }))
            }
            Inner::Along(steps) => {
                let mut hops = Vec::with_capacity(steps.len());
                for Step { axis, by, wrap } in steps {
                    let axis = self.along(axis);
                    hops.push(Hop { axis, by: self.expr(by), wrap });
                }
                ir::Peer::Shift(hops)
            }
        }
    }

    #[track_caller]
    fn along(&mut self, axis: Option<Axis>) -> AxisId {
        match axis {
            Some(axis) => {
                self.belongs(axis.of);
                axis.id
            }
            None => {
                if self.plan.axes.len() != 1 {
                    self.fault("this plan has several axes, or none yet: say along which");
                }
                AxisId(0)
            }
        }
    }
}
