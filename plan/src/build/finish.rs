//! From declared to checked, and back.

use std::error::Error;
use std::fmt;

use super::{Checked, Open, PlanBuilder};
use crate::check::{self, Accepted};
use crate::ir::Plan;
use crate::verdict::Rejected;

/// A plan that is wrong, and its builder as it was: nothing is lost.
pub struct Refused {
    rejected: Rejected,
    builder: Box<PlanBuilder<Open>>,
}

impl PlanBuilder<Open> {
    /// [Checks](crate::check::check) the plan exactly, at many sizes.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, and the builder back. A statement with another builder's handles is
    /// told alone, before anything else is looked at.
    pub fn check(self) -> Result<PlanBuilder<Checked>, Refused> {
        let verdict = match self.faults() {
            Some(rejected) => Err(rejected),
            None => check::check(&self.plan),
        };
        match verdict {
            Ok(accepted) => Ok(PlanBuilder { plan: self.plan, state: Checked { accepted } }),
            Err(rejected) => Err(Refused { rejected, builder: Box::new(self) }),
        }
    }

    /// The plan as declared, which nobody has checked.
    ///
    /// # Errors
    ///
    /// Statements with another builder's handles, which no plan can hold.
    pub fn unchecked(self) -> Result<Plan, Refused> {
        match self.faults() {
            Some(rejected) => Err(Refused { rejected, builder: Box::new(self) }),
            None => Ok(self.plan),
        }
    }

    fn faults(&self) -> Option<Rejected> {
        (!self.state.faults.is_empty()).then(|| Rejected {
            plan: self.plan.name.clone(),
            files: self.plan.files.clone(),
            problems: self.state.faults.clone(),
        })
    }
}

impl PlanBuilder<Checked> {
    /// The plan, and what it was checked at.
    pub fn into_parts(self) -> (Plan, Accepted) {
        (self.plan, self.state.accepted)
    }
}

impl Refused {
    /// What is wrong.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// The builder as it was, and what is wrong.
    pub fn into_parts(self) -> (PlanBuilder<Open>, Rejected) {
        (*self.builder, self.rejected)
    }
}

impl fmt::Debug for Refused {
    /// The stories, as `unwrap` should show them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plan `{}` is refused\n{}", self.rejected.plan, self.rejected)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.rejected, f)
    }
}

impl Error for Refused {}
