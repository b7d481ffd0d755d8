//! Peers, as seen from rank r.

use super::guard::Guard;
use super::number::Number;
use super::ranks::Axis;
use super::{Open, PlanBuilder};
use crate::ir::shape::{DEEP_PEER, LARGE_PEER, Limit, Shape};
use crate::ir::{self, AxisId, Cases, Hop};

/// Another rank, made by [`ring`], [`chain`], [`at`] or [`either`].
///
/// See the example of [`PlanBuilder`](super::PlanBuilder).
#[derive(Clone, Debug)]
#[must_use]
pub struct Peer {
    inner: Inner,
    shape: Result<Shape, Limit>,
}

#[derive(Clone, Debug)]
enum Inner {
    Along(Vec<Step>),
    Rank(Number),
    Cases(Box<(Guard, Peer, Peer)>),
    /// Cases nested too deeply, or too many: the content is discarded.
    Beyond,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// `None` is the plan's only axis.
    axis: Option<Axis>,
    by: Number,
    wrap: bool,
}

/// The rank `by` places ahead on the ring of all ranks: `(r + by) % n`. For plans with one axis.
pub fn ring(by: impl Into<Number>) -> Peer {
    along(None, by.into(), true)
}

/// The rank `by` places ahead on the open chain of all ranks: `r + by`. Where it does not exist,
/// the operation is not issued. For plans with one axis.
pub fn chain(by: impl Into<Number>) -> Peer {
    along(None, by.into(), false)
}

/// The rank with that number in the whole plan.
pub fn at(rank: impl Into<Number>) -> Peer {
    Peer { inner: Inner::Rank(rank.into()), shape: Ok(Shape::ONE) }
}

/// One rank if a condition holds, another one otherwise:
/// `either((r % 2).eq(0), ring(1), ring(-1))`.
pub fn either(condition: Guard, then: Peer, otherwise: Peer) -> Peer {
    let decides = condition.shape.map_or(1, |shape| shape.parts);
    let shape = match (then.shape, otherwise.shape) {
        (Ok(then), Ok(otherwise)) => Shape::around([then, otherwise]).and(decides).fits(),
        (Err(limit), _) | (_, Err(limit)) => Err(limit),
    };
    let cases = Inner::Cases(Box::new((condition, then, otherwise)));
    Peer { inner: if shape.is_ok() { cases } else { Inner::Beyond }, shape }
}

fn along(axis: Option<Axis>, by: Number, wrap: bool) -> Peer {
    Peer { inner: Inner::Along(vec![Step { axis, by, wrap }]), shape: Ok(Shape::ONE) }
}

impl Axis {
    /// The rank `by` places ahead around this axis.
    pub fn ring(self, by: impl Into<Number>) -> Peer {
        along(Some(self), by.into(), true)
    }

    /// The rank `by` places ahead along this axis. Where it does not exist, the operation is not
    /// issued.
    pub fn chain(self, by: impl Into<Number>) -> Peer {
        along(Some(self), by.into(), false)
    }
}

impl Peer {
    /// Continues from there along another axis: a diagonal of a mesh.
    pub fn and(mut self, other: Self) -> Self {
        match (&mut self.inner, other) {
            (Inner::Along(steps), Self { inner: Inner::Along(more), .. }) => {
                let shape =
                    Shape { depth: 1, parts: steps.len().saturating_add(more.len()) }.fits();
                if shape.is_ok() {
                    steps.extend(more);
                    return Self { shape, ..self };
                }
                Self { inner: Inner::Beyond, shape }
            }
            (Inner::Beyond, _) => self,
            // Nothing can be added to a rank's number, nor to cases.
            (_, absolute) => absolute,
        }
    }
}

impl PlanBuilder<Open> {
    #[track_caller]
    pub(crate) fn peer(&mut self, peer: Peer) -> ir::Peer {
        match peer.shape {
            Err(Limit::Depth) => self.fault(DEEP_PEER),
            Err(Limit::Parts) => self.fault(LARGE_PEER),
            Ok(_) => {}
        }
        match peer.inner {
            Inner::Beyond => ir::Peer::Shift(Vec::new()),
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
