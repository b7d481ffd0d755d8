//! The numbers that compute steps get: they exist at every size.

use super::{Lengths, PROMISE};
use crate::arith::{Facts, View};
use crate::ir::{Expr, Location};
use crate::verdict::Check;

impl Lengths<'_> {
    /// Proves that an argument has a value: that nothing is divided by zero, and that lists have the elements
    /// that it names.
    pub(super) fn argument(
        &mut self,
        statement: u32,
        argument: &Expr,
        facts: &Facts,
        view: &View,
        at: Location,
    ) {
        let looked_at = self.is_looked_at(argument) && !self.counts(argument, statement);
        if looked_at || facts.has_value(argument, view) {
            return;
        }
        let title = format!(
            "whether the argument {} has a value cannot be decided for every size",
            self.plan.spelled(argument)
        );
        self.undecided(Check::Bounds, at, &title, PROMISE);
    }
}
