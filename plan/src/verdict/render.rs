//! Renders a story as text, in the layout of rustc's errors.

use std::fmt;

use super::{Problem, ProblemKind, Rejected};
use crate::ir::Location;

impl Problem {
    /// The problem as text. `files` are the plan's.
    pub fn render<'a>(&'a self, files: &'a [String]) -> impl fmt::Display + 'a {
        Rendered { problem: self, files }
    }
}

struct Rendered<'a> {
    problem: &'a Problem,
    files: &'a [String],
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problem, files } = self;
        let is_doubt = problem.kind == ProblemKind::Doubtful;
        f.write_str(if is_doubt { "warning: " } else { "error: " })?;
        if let Some(sizes) = &problem.sizes {
            write!(f, "for {}: ", sizes.text)?;
        }
        writeln!(f, "{}", problem.title)?;
        writeln!(f, "  --> {}", InFile(problem.at, files))?;
        for line in &problem.story {
            write!(f, "   | {}: ", InFile(line.at, files))?;
            if let Some(rank) = line.rank {
                write!(f, "rank {rank} ")?;
            }
            writeln!(f, "{}", line.text)?;
        }
        for help in &problem.help {
            writeln!(f, "   = help: {help}")?;
        }
        Ok(())
    }
}

struct InFile<'a>(Location, &'a [String]);

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(at, files) = self;
        match files.get(usize::from(at.file)) {
            Some(file) => write!(f, "{file}:{}:{}", at.line, at.column),
            None => write!(f, "{}:{}", at.line, at.column),
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            write!(f, "{}", problem.render(&self.files))?;
        }
        Ok(())
    }
}
