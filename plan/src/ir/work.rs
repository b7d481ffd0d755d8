//! Work on a rank's own memory: the user's compute steps, and this library's assignments.

use super::{Equation, Expr, Place, Reduction, Region, Source, Step, StepKind};

/// What a compute step and an assignment have in common.
#[derive(Clone)]
pub(crate) struct LocalWork<'a> {
    /// The name of a compute step; an assignment has none.
    pub(crate) name: Option<&'a str>,
    pub(crate) arguments: &'a [Expr],
    /// The regions that a compute step reads.
    pub(crate) reads: &'a [Region],
    /// The sources of an assignment.
    pub(crate) of: &'a [Source],
    pub(crate) writes: &'a [Region],
    /// The results that a compute step declares.
    pub(crate) computes: &'a [Equation],
    /// The reduction of an assignment.
    pub(crate) by: Option<Reduction>,
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
                of: &[],
                writes: &this.writes,
                computes: &this.computes,
                by: None,
                place: &this.place,
            }),
            Self::Assign(this) => Some(LocalWork {
                name: None,
                arguments: &[],
                reads: &[],
                of: &this.of,
                writes: std::slice::from_ref(&this.to),
                computes: &[],
                by: Some(this.by),
                place: &this.place,
            }),
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
