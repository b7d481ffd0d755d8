//! Whether a plan is well formed: what every reader of a plan relies on, and no more.
//!
//! Nothing here knows sizes. That a region lies inside its buffer, that a peer exists, that messages
//! match: the checker decides that, for plans that are well formed.

mod declarations;
mod numbers;
mod size;
mod steps;

use super::{Location, LoopId, Plan};
use crate::verdict::{Problem, ProblemKind};

/// The most steps of a plan, with those inside others.
pub const MOST_STEPS: usize = 100_000;

/// The most parts of all expressions, conditions, regions and lists of a plan together.
pub const MOST_PARTS: usize = 1_000_000;

/// The most entries of a list of declarations.
pub const MOST_DECLARED: usize = 65_536;

/// The most numbers in a list of sizes.
pub const MOST_VALUES: usize = 4_096;

/// The most combinations of sizes that a plan asks to be checked at once.
const MOST_CHECKED: usize = 1024;

/// The most bytes of a name.
pub const MOST_NAME: usize = 200;

/// The most problems that are told.
pub(crate) const MOST_PROBLEMS: usize = 100;

impl Plan {
    /// What keeps this from being a plan, by place; nothing if it is well formed.
    ///
    /// Every id names something, counters are used inside their loops, sizes are positive, and statements
    /// stand where they may. A plan that is too large or too deep gets that one problem; else the first
    /// hundred are told. The checker takes well-formed plans alone.
    ///
    /// No nesting overflows the stack here. Numbers of any depth are refused where they are made, and so is
    /// whatever a builder makes or a deserializer reads. Code that puts steps, conditions or peers into each
    /// other by hand, a hundred thousand deep, overflows the stack where it drops them, as with any boxes.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = Found { plan: self, problems: Vec::new(), scope: Vec::new() };
        // Everything below walks by recursion, so this comes first.
        if let Err(problem) = size::check(self) {
            return vec![*problem];
        }
        found.declarations();
        found.steps();
        let mut problems = found.problems;
        problems.sort_by_key(|problem| problem.at);
        problems
    }
}

/// What was found so far.
struct Found<'a> {
    plan: &'a Plan,
    problems: Vec<Problem>,
    /// Counters that may be used here.
    scope: Vec<LoopId>,
}

impl Found<'_> {
    fn say(&mut self, at: Location, title: impl Into<String>, help: impl AsRef<str>) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(malformed(at, title.into(), help.as_ref()));
        }
    }
}

fn malformed(at: Location, title: String, help: &str) -> Problem {
    Problem::new(ProblemKind::Malformed, title, at, help)
}
