//! What a check found, as data and as text.

use std::fmt::{self, Write as _};
use std::path::Path;

use typed_nccl_plan::verdict::{Check, Problem, ProblemKind};

use crate::program::{Collective, Format, Program};
use crate::run;
use crate::verify_file;

/// What was found in a schedule.
#[derive(Clone, Debug)]
pub struct Report {
    /// The schedule's file, as it was given.
    pub file: String,
    /// Its name.
    pub name: String,
    /// What it is written in.
    pub format: Format,
    /// What it claims to compute.
    pub collective: Collective,
    /// Its ranks.
    pub ranks: u32,
    /// The thread blocks of all ranks.
    pub blocks: usize,
    /// The steps of all blocks.
    pub steps: usize,
    /// What the verdict takes for granted.
    pub assumed: Vec<String>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// For each problem, a picture of the blocks that wait, if some do.
    pub pictures: Vec<Option<String>>,
}

impl Report {
    pub(crate) fn of(program: &Program, file: &str) -> Self {
        let found = if program.is_fatal { run::Found::default() } else { run::play(program) };
        let read = program.problems.iter().map(|problem| (problem.clone(), None));
        let (problems, pictures) = read.chain(found.problems).unzip();
        Self {
            file: file.to_owned(),
            name: program.name.clone(),
            format: program.format,
            collective: program.collective,
            ranks: program.ranks(),
            blocks: program.blocks.len(),
            steps: program.steps(),
            assumed: program.assumed.clone(),
            problems,
            pictures,
        }
    }

    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether a rule is violated.
    pub fn breaks(&self, check: Check) -> bool {
        self.problems.iter().any(|problem| problem.kind == ProblemKind::Broken(check))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = [self.file.clone()];
        for (problem, picture) in self.problems.iter().zip(&self.pictures) {
            write!(f, "{}", problem.render(&files))?;
            for line in picture.iter().flat_map(|picture| picture.lines()) {
                writeln!(f, "   : {line}")?;
            }
        }
        let Self { file, name, format, ranks, blocks, steps, .. } = self;
        write!(f, "{file}: {name} ({format}, {ranks} ranks, {blocks} blocks, {steps} steps): ")?;
        match (self.problems.len(), self.collective) {
            (0, Collective::Custom) => {
                writeln!(f, "right as far as it goes; it does not say what it computes")?;
            }
            (0, collective) => writeln!(f, "right for {collective}")?,
            (1, _) => writeln!(f, "1 problem")?,
            (many, _) => writeln!(f, "{many} problems")?,
        }
        for assumed in &self.assumed {
            writeln!(f, "   = assumed: {assumed}")?;
        }
        Ok(())
    }
}

/// The result of checking files, as programs return it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All are right.
    Right,
    /// Something is wrong with one.
    Wrong,
    /// One could not be read.
    Unreadable,
}

/// Checks files. Returns the worst that was found, and all of it as text.
pub fn verdict<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> (Verdict, String) {
    let (mut worst, mut text) = (Verdict::Right, String::new());
    for file in files {
        let found = match verify_file(file.as_ref()) {
            Ok(report) => {
                let _ = write!(text, "{report}");
                if report.is_right() { Verdict::Right } else { Verdict::Wrong }
            }
            Err(error) => {
                let _ = writeln!(text, "unreadable: {error}");
                Verdict::Unreadable
            }
        };
        worst = worst.max(found);
    }
    (worst, text)
}
