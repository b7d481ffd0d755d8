//! Evaluates expressions in an instance.

use std::fmt;

use crate::ir::{Condition, Expr, Operator, Peer};

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoValue {
    /// It leaves the range of `i64`.
    Overflow,
    /// It divides by a number below 1.
    Divisor(i64),
    /// It refers to an element that the list does not have.
    Element(i64),
    /// It refers to a counter outside its loop.
    Counter,
    /// A loop counts through the powers of a number below 2.
    Powers(i64),
}

/// The values of the names in an expression.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(crate) extents: &'a [i64],
    pub(crate) size: i64,
    pub(crate) params: &'a [Vec<i64>],
    pub(crate) counters: &'a [Option<i64>],
    pub(crate) rank: i64,
}

impl<'a> Env<'a> {
    /// Outside all loops, on rank 0.
    pub(crate) fn new(extents: &'a [i64], params: &'a [Vec<i64>]) -> Self {
        let size = extents.iter().fold(1, |size: i64, extent| size.saturating_mul(*extent));
        Self { extents, size, params, counters: &[], rank: 0 }
    }

    /// The same on another rank.
    pub(crate) fn on(self, rank: usize) -> Self {
        Self { rank: rank as i64, ..self }
    }

    pub(crate) fn eval(&self, expr: &Expr) -> Result<i64, NoValue> {
        if let Some((operator, a, b)) = expr.binary() {
            let (a, b) = (self.eval(a)?, self.eval(b)?);
            return operator.apply(a, b).ok_or(match operator {
                Operator::Div | Operator::Rem => NoValue::Divisor(b),
                _ => NoValue::Overflow,
            });
        }
        match expr {
            Expr::Int(value) => Ok(*value),
            Expr::Rank => Ok(self.rank),
            Expr::Size => Ok(self.size),
            Expr::Coordinate(axis) => {
                let after: i64 = self.extents[axis.index() + 1..].iter().product();
                Ok(self.rank / after % self.extents[axis.index()])
            }
            Expr::Extent(axis) => Ok(self.extents[axis.index()]),
            Expr::Param(id) => Ok(self.params[id.index()][0]),
            Expr::Element(id, index) => {
                let index = self.eval(index)?;
                let element = usize::try_from(index).ok();
                element
                    .and_then(|at| self.params[id.index()].get(at).copied())
                    .ok_or(NoValue::Element(index))
            }
            Expr::Absent(index) => Err(NoValue::Element(self.eval(index)?)),
            Expr::Choice(choice) => {
                let chosen = self.holds(&choice.condition)?;
                self.eval(if chosen { &choice.then } else { &choice.otherwise })
            }
            Expr::Loop(id) => {
                self.counters.get(id.index()).copied().flatten().ok_or(NoValue::Counter)
            }
            // Well-formed plans contain no others.
            _ => Err(NoValue::Overflow),
        }
    }

    /// A peer by cases, resolved.
    pub(crate) fn case<'p>(&self, mut peer: &'p Peer) -> Result<&'p Peer, NoValue> {
        while let Peer::Cases(cases) = peer {
            let holds = self.holds(&cases.condition)?;
            peer = if holds { &cases.then } else { &cases.otherwise };
        }
        Ok(peer)
    }

    pub(crate) fn holds(&self, condition: &Condition) -> Result<bool, NoValue> {
        match condition {
            Condition::Compare(a, how, b) => Ok(how.holds(self.eval(a)?, self.eval(b)?)),
            Condition::All(list) => {
                for one in list {
                    if !self.holds(one)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Any(list) => {
                for one in list {
                    if self.holds(one)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Condition::Not(one) => Ok(!self.holds(one)?),
        }
    }
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overflow => f.write_str("a number here is too large for 64 bits"),
            Self::Divisor(by) => write!(f, "this divides by {by}"),
            Self::Element(index) => write!(f, "the list has no element {index}"),
            Self::Powers(base) => {
                write!(f, "this loop counts through powers of {base}, which have no end")
            }
            Self::Counter => f.write_str("a counter is used outside its loop"),
        }
    }
}
