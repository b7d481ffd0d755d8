//! What the simulator found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use typed_nccl_plan::verdict::Check;

/// What is wrong with an instance of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Why it is no plan at all. Nothing else is looked at then.
    pub malformed: Option<String>,
    /// The rules that it breaks, each with the first case in words.
    pub notes: BTreeMap<Check, String>,
}

impl Outcome {
    pub(crate) fn note(&mut self, check: Check, text: impl FnOnce() -> String) {
        self.notes.entry(check).or_insert_with(text);
    }

    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.malformed.is_none() && self.notes.is_empty()
    }

    /// Whether this rule is broken.
    pub fn breaks(&self, check: Check) -> bool {
        self.notes.contains_key(&check)
    }

    /// The rules that are broken.
    pub fn broken(&self) -> BTreeSet<Check> {
        self.notes.keys().copied().collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.malformed {
            return writeln!(f, "no plan: {why}");
        }
        if self.notes.is_empty() {
            return writeln!(f, "right");
        }
        for (check, text) in &self.notes {
            writeln!(f, "{check}: {text}")?;
        }
        Ok(())
    }
}
