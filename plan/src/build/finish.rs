//! From open to checked builders, and back.

use std::error::Error;
use std::fmt;

use super::{Checked, Open, PlanBuilder};
use crate::check::{self, Accepted};
use crate::ir::Plan;
use crate::verdict::Rejected;

/// An incorrect plan with its builder, which is unchanged.
///
/// ```
/// use typed_nccl_plan::build::{PlanBuilder, Refused, ring};
///
/// let mut plan = PlanBuilder::new("half");
/// plan.ranks(2..);
/// let a = plan.input::<f32>("a", 4);
/// let net = plan.stream("net");
/// plan.on(net).send(a, ring(1)); // nobody receives it
/// let refused: Refused = plan.check().err().expect("it would hang");
/// println!("{refused}");
/// assert!(!refused.rejected().problems.is_empty());
/// ```
pub struct Refused {
    rejected: Rejected,
    builder: Box<PlanBuilder<Open>>,
}

impl PlanBuilder<Open> {
    /// [Checks](crate::check::check) the plan exactly, at many sizes.
    ///
    /// # Errors
    ///
    /// All errors of the plan, and the builder. A statement with another builder's handles is
    /// reported alone, before anything else is checked.
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

    /// The plan as declared, without checking it.
    ///
    /// # Errors
    ///
    /// Statements with another builder's handles, which no plan can contain.
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
    /// The plan, and the sizes at which it was checked.
    pub fn into_parts(self) -> (Plan, Accepted) {
        (self.plan, self.state.accepted)
    }
}

impl Refused {
    /// The errors.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// The unchanged builder, and the errors.
    pub fn into_parts(self) -> (PlanBuilder<Open>, Rejected) {
        (*self.builder, self.rejected)
    }
}

impl fmt::Debug for Refused {
    /// The stories, for the output of `unwrap`.
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
