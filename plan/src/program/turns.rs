//! The values of a loop's counter.

use super::{Env, NoValue};
use crate::ir::{Each, Expr, Loop, powers};

/// The values that a loop's counter takes, in their order.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    /// The smallest value, or less.
    pub(crate) from: i64,
    /// The end, excluded.
    pub(crate) to: i64,
    base: Option<i64>,
    reverse: bool,
}

impl Turns {
    pub(crate) fn of(this: &Loop, env: &Env<'_>) -> Result<Self, NoValue> {
        let turns = Self::new((&this.from, &this.to), this.powers.as_ref(), env)?;
        Ok(Self { reverse: this.reverse, ..turns })
    }

    /// Those of a loop around a claim.
    pub(crate) fn of_each(this: &Each, env: &Env<'_>) -> Result<Self, NoValue> {
        Self::new((&this.from, &this.to), this.powers.as_ref(), env)
    }

    fn new(
        (from, to): (&Expr, &Expr),
        base: Option<&Expr>,
        env: &Env<'_>,
    ) -> Result<Self, NoValue> {
        let base = base.map(|base| env.eval(base)).transpose()?;
        if let Some(base) = base.filter(|base| *base < 2) {
            return Err(NoValue::Powers(base));
        }
        Ok(Self { from: env.eval(from)?, to: env.eval(to)?, base, reverse: false })
    }

    pub(crate) fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    pub(crate) fn contains(self, value: i64) -> bool {
        (self.from..self.to).contains(&value)
            && self.base.is_none_or(|base| powers(base).any(|power| power == value))
    }

    /// These and those of another rank in the same loop.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to), ..self }
    }

    /// How many there are at most.
    pub(crate) fn most(self) -> u64 {
        match self.base {
            None if self.from < self.to => self.from.abs_diff(self.to),
            None => 0,
            Some(_) => self.iter().count() as u64,
        }
    }

    pub(crate) fn nth(self, nth: i64) -> Option<i64> {
        match (self.base, self.reverse) {
            (None, true) => self.to.checked_sub(1)?.checked_sub(nth),
            (None, false) => self.from.checked_add(nth),
            (Some(_), _) => self.iter().nth(usize::try_from(nth).ok()?),
        }
        .filter(|value| self.contains(*value))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = i64> {
        let inside = self.from..self.to;
        let first = match self.base {
            _ if inside.is_empty() => None,
            None if self.reverse => Some(self.to - 1),
            None => Some(self.from),
            Some(base) => {
                let mut all = powers(base).filter(|power| inside.contains(power));
                if self.reverse { all.last() } else { all.next() }
            }
        };
        // Past the ends of 64 bits there is no further turn.
        let next = move |value: &i64| match (self.base, self.reverse) {
            (None, reverse) => value.checked_add(if reverse { -1 } else { 1 }),
            (Some(base), false) => value.checked_mul(base),
            (Some(base), true) => (*value > 1).then_some(value / base),
        };
        std::iter::successors(first, next).take_while(move |value| inside.contains(value))
    }
}
