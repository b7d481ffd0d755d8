//! What is allowed, and most likely not meant: told of plans that are right.

mod ends;
mod late;
mod streams;

use super::instance::Instance;
use crate::ir::Plan;
use crate::verdict::Problem;
use ends::Ends;
use late::Late;
use streams::Streams;

/// What was seen at the sizes so far.
pub(super) struct Warnings {
    streams: Streams,
    ends: Ends,
    late: Late,
}

impl Warnings {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { streams: Streams::new(plan), ends: Ends::new(plan), late: Late::default() }
    }

    /// Looks at an instance in which nothing is wrong.
    pub(super) fn look(&mut self, instance: &Instance<'_>) {
        self.streams.look(instance);
        self.ends.look(instance);
        self.late.look(instance);
    }

    /// All of them, by place.
    pub(super) fn finish(self) -> Vec<Problem> {
        let mut all: Vec<Problem> = self.ends.finish().collect();
        all.extend(self.streams.finish());
        all.extend(self.late.finish());
        all.sort_by_key(|one| one.at);
        all
    }
}
