//! The value of an expression on one rank.

use typed_nccl_plan::ir::{Condition, Expr};

use crate::far::World;
use crate::instance::Instance;

/// Why something has no meaning: no plan at all, rather than a wrong one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

/// Where an expression is looked at: on which rank, with which counters.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) instance: &'a Instance<'a>,
    pub(crate) rank: Option<usize>,
    pub(crate) counters: &'a [Option<i64>],
    /// The sizes: those of the instance, or others.
    pub(crate) world: &'a World,
}

impl Scope<'_> {
    pub(crate) fn number(&self, expr: &Expr) -> Result<i64, Malformed> {
        let bad = |what: &str| Malformed(format!("{what} in {expr:?}"));
        let two = |a: &Expr, b: &Expr| Ok::<_, Malformed>((self.number(a)?, self.number(b)?));
        match expr {
            Expr::Int(value) => Ok(*value),
            Expr::Rank => self.rank.map(|rank| rank as i64).ok_or_else(|| bad("no rank here")),
            Expr::Size => Ok(self.world.extents.iter().product()),
            Expr::Coordinate(axis) => {
                let rank = self.rank.ok_or_else(|| bad("no rank here"))?;
                let place = self.instance.coordinates(rank).get(axis.index()).copied();
                place.ok_or_else(|| bad("no such axis"))
            }
            Expr::Extent(axis) => {
                let extent = self.world.extents.get(axis.index()).copied();
                extent.ok_or_else(|| bad("no such axis"))
            }
            Expr::Param(param) => {
                let list = self.world.params.get(param.index());
                list.and_then(|list| list.first()).copied().ok_or_else(|| bad("no such parameter"))
            }
            Expr::Element(param, at) => {
                let at = self.number(at)?;
                let list = self.world.params.get(param.index());
                let list = list.ok_or_else(|| bad("no such parameter"))?;
                let at = usize::try_from(at).ok();
                at.and_then(|at| list.get(at)).copied().ok_or_else(|| bad("outside the list"))
            }
            Expr::Loop(counter) => {
                let value = self.counters.get(counter.index()).copied().flatten();
                value.ok_or_else(|| bad("no such counter here"))
            }
            Expr::Add(a, b) => {
                let (a, b) = two(a, b)?;
                a.checked_add(b).ok_or_else(|| bad("overflow"))
            }
            Expr::Sub(a, b) => {
                let (a, b) = two(a, b)?;
                a.checked_sub(b).ok_or_else(|| bad("overflow"))
            }
            Expr::Mul(a, b) => {
                let (a, b) = two(a, b)?;
                a.checked_mul(b).ok_or_else(|| bad("overflow"))
            }
            Expr::Div(a, b) => {
                let (a, b) = two(a, b)?;
                if b <= 0 { Err(bad("divisor")) } else { Ok(a.div_euclid(b)) }
            }
            Expr::Rem(a, b) => {
                let (a, b) = two(a, b)?;
                if b <= 0 { Err(bad("divisor")) } else { Ok(a.rem_euclid(b)) }
            }
            Expr::Min(a, b) => two(a, b).map(|(a, b)| a.min(b)),
            Expr::Max(a, b) => two(a, b).map(|(a, b)| a.max(b)),
            Expr::Xor(a, b) => two(a, b).map(|(a, b)| a ^ b),
            Expr::Choice(choice) => {
                let holds = self.holds(&choice.condition)?;
                self.number(if holds { &choice.then } else { &choice.otherwise })
            }
            Expr::Absent(_) => Err(bad("past the end of a list")),
            Expr::TooDeep | Expr::TooLarge => Err(bad("no number of a plan")),
        }
    }

    pub(crate) fn holds(&self, condition: &Condition) -> Result<bool, Malformed> {
        Ok(match condition {
            Condition::Compare(a, how, b) => how.holds(self.number(a)?, self.number(b)?),
            Condition::All(list) => {
                for one in list {
                    if !self.holds(one)? {
                        return Ok(false);
                    }
                }
                true
            }
            Condition::Any(list) => {
                for one in list {
                    if self.holds(one)? {
                        return Ok(true);
                    }
                }
                false
            }
            Condition::Not(one) => !self.holds(one)?,
        })
    }
}
