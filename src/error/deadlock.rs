//! Waits that can never end.

use std::fmt;

use thiserror::Error;

use crate::Rank;

/// Ranks wait for each other, or for what nobody is left to call.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Deadlock {
    /// The ranks that wait, and those that they wait for.
    pub ranks: Vec<Rank>,
    /// Whether they wait for each other; if not, every thread of the process waits, and none of them
    /// can make the call that is missing.
    pub circle: bool,
    /// Who waits for whom at which line, step by step.
    pub story: Vec<String>,
    /// What mends it.
    pub help: &'static str,
}

impl Deadlock {
    /// The first line: who waits.
    fn title(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.ranks[..], self.circle) {
            ([one], true) => write!(f, "rank {one} waits for itself"),
            ([a, b], true) => write!(f, "rank {a} and rank {b} wait for each other"),
            ([a, b, c], true) => write!(f, "ranks {a}, {b} and {c} wait in a circle"),
            (all, true) => write!(f, "{} ranks wait for one another in a circle", all.len()),
            (_, false) => f.write_str("every thread waits, and none is left to make the next call"),
        }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title(f)?;
        for line in &self.story {
            write!(f, "\n  {line}")?;
        }
        write!(f, "\nhelp: {}", self.help)
    }
}
