//! Checks that a plan is well formed: the minimum that every reader of a plan relies on.
//!
//! Nothing here knows sizes. Whether a region lies inside its buffer, a peer exists or messages
//! match is decided by the checker, for well-formed plans.

mod claims;
mod counts;
mod declarations;
mod numbers;
mod size;
mod steps;

use super::{Location, LoopId, Plan};
use crate::verdict::{Problem, ProblemKind};

/// The most steps of a plan, including nested ones.
pub const MOST_STEPS: usize = 100_000;

/// The most parts of all expressions, conditions, regions and lists of a plan together.
pub const MOST_PARTS: usize = 1_000_000;

/// The most entries of a list of declarations.
pub const MOST_DECLARED: usize = 65_536;

/// The most numbers in a list of sizes.
pub const MOST_VALUES: usize = 4_096;

/// The most combinations of sizes that a plan asks to be checked at once.
const MOST_CHECKED: usize = 1024;

/// The most sources that one assignment names.
pub const MOST_ASSIGNED: usize = 16;

/// The most regions that one assignment reads, with one for each turn of the loops around its
/// sources.
pub const MOST_REDUCED: usize = 64;

/// The most bytes of a name.
pub const MOST_NAME: usize = 200;

/// The most problems that are reported.
pub(crate) const MOST_PROBLEMS: usize = 100;

impl Plan {
    /// The problems that prevent this from being a plan, by location; empty if it is well formed.
    ///
    /// In a well-formed plan every id refers to something, counters are used inside their loops,
    /// sizes are positive, and statements are where they are allowed. For a plan that is too large
    /// or too deep, that is the only problem; otherwise the first hundred are reported. The checker
    /// accepts only well-formed plans.
    ///
    /// No nesting overflows the stack here: expressions beyond the limit cannot be made, and
    /// builders and deserializers refuse the rest. Code that nests steps, conditions or peers by
    /// hand, a hundred thousand deep, overflows the stack when it drops them, as any nested boxes
    /// do.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = Found { plan: self, problems: Vec::new(), scope: Vec::new() };
        // Everything below recurses, so this comes first.
        if let Err(problem) = size::check(self) {
            return vec![*problem];
        }
        found.declarations();
        found.steps();
        found.counts();
        let mut problems = found.problems;
        problems.sort_by_key(|problem| problem.at);
        problems
    }
}

/// The problems so far.
struct Found<'a> {
    plan: &'a Plan,
    problems: Vec<Problem>,
    /// Counters in scope.
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
