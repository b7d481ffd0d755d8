//! Errors for missing values and for accesses out of bounds.

use super::{NO_VALUE, Walk};
use crate::program::NoValue;
use crate::verdict::{Check, Line, Problem, ProblemKind};

impl Walk<'_> {
    pub(super) fn no_value(&mut self, number: u32, rank: usize, why: NoValue) {
        self.out_of_bounds(number, rank, why.to_string(), NO_VALUE);
    }

    /// The iteration of the enclosing loops in which a statement runs, in words.
    fn iteration(&self) -> String {
        let counters = self.plan.counters.iter().zip(&self.counters);
        let values = counters.filter_map(|(counter, value)| {
            value.map(|value| format!("`{}` = {value}", counter.name))
        });
        let values: Vec<String> = values.collect();
        if values.is_empty() {
            return "runs this".to_owned();
        }
        format!("runs this, with {}", values.join(", "))
    }

    pub(super) fn out_of_bounds(&mut self, number: u32, rank: usize, title: String, help: &str) {
        if std::mem::replace(&mut self.bounded[number as usize], true) {
            return;
        }
        let at = self.places[number as usize];
        let text = self.iteration();
        // The story does not repeat the title.
        let kind = ProblemKind::Broken(Check::Bounds);
        let mut problem = Problem::new(kind, title, at, help).at_sizes(self.sizes);
        problem.story.push(Line { rank: Some(rank), other: None, at, text });
        self.problems.push(problem);
    }
}
