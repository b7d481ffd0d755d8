//! Work on a rank's own memory: the user's compute steps, and this library's assignments.

use std::borrow::Cow;

use super::{Equation, Expr, Place, Region, Step, StepKind};

/// What a compute step and an assignment have in common.
#[derive(Clone)]
pub(crate) struct LocalWork<'a> {
    /// The name of a compute step; an assignment has none.
    pub(crate) name: Option<&'a str>,
    pub(crate) arguments: &'a [Expr],
    pub(crate) reads: &'a [Region],
    pub(crate) writes: &'a [Region],
    pub(crate) computes: Cow<'a, [Equation]>,
    pub(crate) place: &'a Place,
}

impl StepKind {
    /// The work on the rank's own memory, if it is that.
    pub(crate) fn local_work(&self) -> Option<LocalWork<'_>> {
        match self {
            Self::Compute(this) => Some(LocalWork {
                name: Some(&this.name),
                arguments: &this.arguments,
                reads: &this.reads,
                writes: &this.writes,
                computes: Cow::Borrowed(&this.computes),
                place: &this.place,
            }),
            Self::Assign(this) => {
                let of = (0..).zip(&this.of).map(|(nth, _)| nth).collect();
                Some(LocalWork {
                    name: None,
                    arguments: &[],
                    reads: &this.of,
                    writes: std::slice::from_ref(&this.to),
                    computes: Cow::Owned(vec![Equation { to: 0, by: this.by, of }]),
                    place: &this.place,
                })
            }
            _ => None,
        }
    }
}

impl Step {
    /// For each statement, by number, its work on the rank's own memory.
    pub(crate) fn local_works(steps: &[Self]) -> Vec<Option<LocalWork<'_>>> {
        Self::all(steps).map(|step| step.kind.local_work()).collect()
    }
}
