//! A plan's statements by number: in source order, outer before inner.

use crate::ir::{Location, Plan, Step};

/// A plan's statements, numbered in source order.
pub(crate) struct Statements<'a> {
    pub(super) steps: Vec<Numbered<'a>>,
    pub(crate) places: Vec<Location>,
}

/// A statement with its number, and those inside it.
pub(super) struct Numbered<'a> {
    pub(super) number: u32,
    pub(super) step: &'a Step,
    /// Its work for one rank: roughly the number of its parts.
    pub(super) weight: u64,
    pub(super) body: Vec<Self>,
}

impl<'a> Statements<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        fn number<'a>(steps: &'a [Step], places: &mut Vec<Location>) -> Vec<Numbered<'a>> {
            let mut numbered = Vec::with_capacity(steps.len());
            for step in steps {
                let own = places.len() as u32;
                places.push(step.at);
                let (weight, body) = (weight(step), number(step.body(), places));
                numbered.push(Numbered { number: own, step, weight, body });
            }
            numbered
        }
        let mut places = Vec::new();
        let steps = number(&plan.steps, &mut places);
        Self { steps, places }
    }
}

/// The weight grows with the parts of a statement, without those inside it; ordinary statements
/// weigh one.
fn weight(step: &Step) -> u64 {
    1 + step.size() as u64 / 32
}
