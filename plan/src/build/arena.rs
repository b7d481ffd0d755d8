//! Storage for the expressions of open builders, so that a [`Number`](super::Number) is a small
//! `Copy` value.
//!
//! A builder's number is an index into that builder's arena, which is freed with the builder. A
//! number that outlives its builder, or combines two builders, cannot be looked up any more;
//! `check` reports it like any other fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fault::FOREIGN;
use super::guard::Guard;
use crate::ir::shape::{DEEP_CONDITION, DEEP_NUMBER, LARGE_CONDITION, LARGE_NUMBER};
use crate::ir::{Expr, LoopId, Operator, ParamId};

const IMPOSSIBLE: &str = "this number is too large, or divided by a number below 1";

static NEXT: AtomicU64 = AtomicU64::new(0);
static ARENAS: Mutex<BTreeMap<Stamp, Vec<Expr>>> = Mutex::new(BTreeMap::new());

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
    /// Adds an expression.
    pub(crate) fn push(self, expr: Expr) -> Value {
        match (expr, arenas().get_mut(&self)) {
            (Expr::Int(value), _) => Value::Int(value),
            (expr, Some(arena)) => {
                arena.push(expr);
                Value::At(self, arena.len() - 1)
            }
            (_, None) => Value::Foreign,
        }
    }
}

impl Value {
    pub(crate) fn binary(operator: Operator, left: Self, right: Self) -> Self {
        let stamp = match (left, right) {
            (Self::Int(left), Self::Int(right)) => {
                return operator.apply(left, right).map_or(Self::Impossible, Self::Int);
            }
            (Self::Foreign, _) | (_, Self::Foreign) => return Self::Foreign,
            (Self::At(stamp, _), _) | (_, Self::At(stamp, _)) => stamp,
            _ => return Self::Impossible,
        };
        match (left.find(stamp), right.find(stamp)) {
            (Ok(left), Ok(right)) => stamp.push(operator.of(left, right)),
            (Err(lacking), _) | (_, Err(lacking)) => lacking,
        }
    }

    /// One of two, depending on a condition.
    pub(crate) fn choice(guard: Guard, then: Self, otherwise: Self) -> Self {
        let stamps = [guard.stamp(), then.stamp(), otherwise.stamp()];
        let Some(stamp) = stamps.into_iter().flatten().next() else {
            return if guard.holds() { then } else { otherwise };
        };
        let condition = match guard.condition(stamp) {
            Ok(condition) => condition,
            Err(DEEP_CONDITION | LARGE_CONDITION) => return stamp.push(Expr::TooLarge),
            Err(_) => return Self::Foreign,
        };
        match (then.find(stamp), otherwise.find(stamp)) {
            (Ok(then), Ok(otherwise)) => stamp.push(Expr::choice(condition, then, otherwise)),
            (Err(lacking), _) | (_, Err(lacking)) => lacking,
        }
    }

    pub(crate) fn stamp(self) -> Option<Stamp> {
        match self {
            Self::At(stamp, _) => Some(stamp),
            _ => None,
        }
    }

    /// The element of a list at this index.
    pub(crate) fn element(self, of: Stamp, list: ParamId) -> Self {
        match self.find(of) {
            Ok(index) => of.push(Expr::element(list, index)),
            Err(lacking) => lacking,
        }
    }

    /// This with `by` in place of a counter.
    pub(crate) fn replace(self, counter: LoopId, by: Self) -> Self {
        let Self::At(stamp, _) = self else { return self };
        match (self.find(stamp), by.find(stamp)) {
            (Ok(expr), Ok(by)) => stamp.push(expr.replace(counter, &by)),
            (Ok(expr), Err(_)) if !expr.any(|part| *part == Expr::Loop(counter)) => self,
            (Err(lacking), _) | (_, Err(lacking)) => lacking,
        }
    }

    /// The number of its parts.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::At(stamp, at) => look(stamp, at).map_or(1, |expr| expr.size()),
            _ => 1,
        }
    }

    /// The expression in a plan of the builder `of`, or why there is none.
    pub(crate) fn expr(self, of: Stamp) -> Result<Expr, &'static str> {
        match self.find(of) {
            Ok(Expr::TooDeep) => Err(DEEP_NUMBER),
            Ok(Expr::TooLarge) => Err(LARGE_NUMBER),
            Ok(expr) => Ok(expr),
            Err(Self::Impossible) => Err(IMPOSSIBLE),
            Err(_) => Err(FOREIGN),
        }
    }

    /// The expression, or a value that has none.
    fn find(self, of: Stamp) -> Result<Expr, Self> {
        match self {
            Self::Int(value) => Ok(Expr::Int(value)),
            Self::At(stamp, at) if stamp == of => look(stamp, at).ok_or(Self::Foreign),
            Self::At(..) => Err(Self::Foreign),
            lacking => Err(lacking),
        }
    }
}

fn look(stamp: Stamp, at: usize) -> Option<Expr> {
    arenas().get(&stamp).and_then(|arena| arena.get(at)).cloned()
}

fn arenas() -> MutexGuard<'static, BTreeMap<Stamp, Vec<Expr>>> {
    // Nothing under this lock panics half way, so the map is whole even if it is poisoned.
    ARENAS.lock().unwrap_or_else(PoisonError::into_inner)
}
