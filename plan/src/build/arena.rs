//! Storage for the expressions of open builders, so that a [`Number`](super::Number) is a small
//! `Copy` value.
//!
//! A builder's number is an index into that builder's arena, which is freed with the builder. A
//! number that outlives its builder, or combines two builders, cannot be looked up any more;
//! `check` reports it like any other fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ir::shape::{DEEP_NUMBER, LARGE_NUMBER, Limit, Shape};
use crate::ir::{AxisId, Expr, LoopId, ParamId};

const IMPOSSIBLE: &str = "this number is too large, or divided by a number below 1";

static NEXT: AtomicU64 = AtomicU64::new(0);
static ARENAS: Mutex<BTreeMap<Stamp, Vec<(Node, Shape)>>> = Mutex::new(BTreeMap::new());

/// The builder that a handle belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

/// The arena of one open builder, freed on drop.
#[derive(Debug)]
pub(crate) struct Arena(Stamp);

/// A number, as small as a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// A number that needs no builder.
    Int(i64),
    /// An index into an arena.
    At(Stamp, usize),
    /// Made of numbers of two builders, or of one that is gone.
    Foreign,
    /// Too large, or divided by a number below 1.
    Impossible,
    /// Too many parts, or nested too deeply.
    Beyond(Limit),
}

/// A binary operator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
}

/// The content of an arena entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    Rank,
    Size,
    Coordinate(AxisId),
    Extent(AxisId),
    Param(ParamId),
    Element(ParamId, Value),
    Loop(LoopId),
    Binary(Operator, Value, Value),
}

impl Arena {
    pub(crate) fn new() -> Self {
        let stamp = Stamp(NEXT.fetch_add(1, Ordering::Relaxed));
        arenas().insert(stamp, Vec::new());
        Self(stamp)
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.0
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        arenas().remove(&self.0);
    }
}

impl Stamp {
    /// Adds an entry, which is within the limits of depth and size.
    pub(crate) fn push(self, node: Node) -> Value {
        let shape = match node.shape() {
            Ok(shape) => shape,
            Err(limit) => return Value::Beyond(limit),
        };
        match arenas().get_mut(&self) {
            Some(arena) => {
                arena.push((node, shape));
                Value::At(self, arena.len() - 1)
            }
            None => Value::Foreign,
        }
    }
}

impl Value {
    pub(crate) fn binary(operator: Operator, left: Self, right: Self) -> Self {
        let stamp = match (left, right) {
            (Self::Foreign, _) | (_, Self::Foreign) => return Self::Foreign,
            (Self::Impossible, _) | (_, Self::Impossible) => return Self::Impossible,
            (Self::Beyond(limit), _) | (_, Self::Beyond(limit)) => return Self::Beyond(limit),
            (Self::Int(left), Self::Int(right)) => return operator.of(left, right),
            (Self::At(left, _), Self::At(right, _)) if left != right => return Self::Foreign,
            (Self::At(stamp, _), _) | (_, Self::At(stamp, _)) => stamp,
        };
        stamp.push(Node::Binary(operator, left, right))
    }

    /// Its depth and size, if within the limits.
    pub(crate) fn shape(self) -> Result<Shape, Limit> {
        match self {
            Self::At(stamp, at) => Ok(look(stamp, at).map_or(Shape::ONE, |(_, shape)| shape)),
            Self::Beyond(limit) => Err(limit),
            Self::Int(_) | Self::Foreign | Self::Impossible => Ok(Shape::ONE),
        }
    }

    /// This with `by` in place of a counter.
    pub(crate) fn replace(self, counter: LoopId, by: Self) -> Self {
        let Self::At(stamp, at) = self else { return self };
        let Some((node, _)) = look(stamp, at) else { return Self::Foreign };
        match node {
            Node::Loop(id) if id == counter => by,
            Node::Element(param, index) => {
                stamp.push(Node::Element(param, index.replace(counter, by)))
            }
            Node::Binary(operator, left, right) => {
                Self::binary(operator, left.replace(counter, by), right.replace(counter, by))
            }
            _ => self,
        }
    }

    /// The expression in a plan of the builder `of`, or why there is none.
    pub(crate) fn expr(self, of: Stamp) -> Result<Expr, &'static str> {
        match self {
            Self::Int(value) => Ok(Expr::Int(value)),
            Self::Impossible => Err(IMPOSSIBLE),
            Self::Beyond(Limit::Depth) => Err(DEEP_NUMBER),
            Self::Beyond(Limit::Parts) => Err(LARGE_NUMBER),
            Self::At(stamp, at) if stamp == of => {
                let (node, _) = look(stamp, at).ok_or(super::fault::FOREIGN)?;
                node.expr(of)
            }
            Self::At(..) | Self::Foreign => Err(super::fault::FOREIGN),
        }
    }
}

impl Node {
    fn shape(self) -> Result<Shape, Limit> {
        let (first, second) = match self {
            Self::Element(_, index) => (Some(index), None),
            Self::Binary(_, left, right) => (Some(left), Some(right)),
            _ => (None, None),
        };
        let inner = first.into_iter().chain(second).map(Value::shape);
        Shape::around(inner.collect::<Result<Vec<_>, _>>()?).fits()
    }

    fn expr(self, of: Stamp) -> Result<Expr, &'static str> {
        Ok(match self {
            Self::Rank => Expr::Rank,
            Self::Size => Expr::Size,
            Self::Coordinate(axis) => Expr::Coordinate(axis),
            Self::Extent(axis) => Expr::Extent(axis),
            Self::Param(param) => Expr::Param(param),
            Self::Loop(counter) => Expr::Loop(counter),
            Self::Element(param, index) => Expr::element(param, index.expr(of)?),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.expr(of)?, right.expr(of)?);
                match operator {
                    Operator::Add => left + right,
                    Operator::Sub => left - right,
                    Operator::Mul => left * right,
                    Operator::Div => left / right,
                    Operator::Rem => left % right,
                    Operator::Min => left.min(right),
                    Operator::Max => left.max(right),
                }
            }
        })
    }
}

impl Operator {
    /// Rounds down, and only divides by numbers from 1, as plans do.
    fn of(self, left: i64, right: i64) -> Value {
        let value = match self {
            Self::Add => left.checked_add(right),
            Self::Sub => left.checked_sub(right),
            Self::Mul => left.checked_mul(right),
            Self::Div | Self::Rem if right < 1 => None,
            Self::Div => left.checked_div_euclid(right),
            Self::Rem => left.checked_rem_euclid(right),
            Self::Min => Some(left.min(right)),
            Self::Max => Some(left.max(right)),
        };
        value.map_or(Value::Impossible, Value::Int)
    }
}

fn look(stamp: Stamp, at: usize) -> Option<(Node, Shape)> {
    arenas().get(&stamp).and_then(|arena| arena.get(at)).copied()
}

fn arenas() -> MutexGuard<'static, BTreeMap<Stamp, Vec<(Node, Shape)>>> {
    // Nothing under this lock panics half way, so the map is whole even if it is poisoned.
    ARENAS.lock().unwrap_or_else(PoisonError::into_inner)
}
