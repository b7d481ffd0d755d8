//! What a runtime does not accept, or does otherwise than the file says: problems without a story.

use typed_nccl_plan::ir::Location;
use typed_nccl_plan::verdict::{Problem, ProblemKind};

use crate::limits;

/// What one runtime refuses of one file.
#[derive(Debug)]
pub(crate) struct Refusals {
    help: &'static str,
    found: Vec<(Location, String)>,
}

impl Refusals {
    pub(crate) fn new(help: &'static str) -> Self {
        Self { help, found: Vec::new() }
    }

    pub(crate) fn add(&mut self, at: Location, title: String) {
        if self.found.len() < limits::PROBLEMS {
            self.found.push((at, title));
        }
    }

    /// Adds what may be found at many places, the first time.
    pub(crate) fn add_once(&mut self, at: Location, title: &str) {
        if self.found.iter().all(|(_, known)| known != title) {
            self.add(at, title.to_owned());
        }
    }

    pub(crate) fn problems(self) -> Vec<Problem> {
        let problem = |(at, title)| Problem {
            kind: ProblemKind::Malformed,
            title,
            at,
            sizes: None,
            story: Vec::new(),
            help: vec![self.help.to_owned()],
        };
        self.found.into_iter().map(problem).collect()
    }
}
