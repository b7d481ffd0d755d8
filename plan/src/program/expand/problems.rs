//! Errors for missing values and for accesses out of bounds.

use super::{NO_VALUE, Walk};
use crate::program::NoValue;
use crate::verdict::{Check, Line, Problem, ProblemKind};

/// Why a rank cannot issue a statement.
pub(super) struct OutOfBounds {
    title: String,
    help: String,
}

impl OutOfBounds {
    pub(super) fn new(title: String, help: impl Into<String>) -> Self {
        Self { title, help: help.into() }
    }
}

impl From<NoValue> for OutOfBounds {
    fn from(why: NoValue) -> Self {
        Self::new(why.to_string(), NO_VALUE)
    }
}

impl Walk<'_> {
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

    /// What was found on a rank; the first error of a statement is reported.
    pub(super) fn found<T>(
        &mut self,
        rank: usize,
        found: Result<T, impl Into<OutOfBounds>>,
    ) -> Option<T> {
        let why = match found {
            Ok(found) => return Some(found),
            Err(why) => why.into(),
        };
        if !std::mem::replace(&mut self.bounded[self.number as usize], true) {
            let at = self.places[self.number as usize];
            let text = self.iteration();
            // The story does not repeat the title.
            let kind = ProblemKind::Broken(Check::Bounds);
            let mut problem = Problem::new(kind, why.title, at, &why.help).at_sizes(self.sizes);
            problem.story.push(Line::of(rank, at, text));
            self.problems.push(problem);
        }
        None
    }
}
