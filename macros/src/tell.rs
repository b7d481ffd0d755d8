//! The checker's problems as errors at the user's tokens.

use std::collections::HashMap;
use std::fmt::Write;

use proc_macro2::Span;
use typed_nccl_plan::check::Accepted;
use typed_nccl_plan::ir::Location;
use typed_nccl_plan::verdict::{Problem, ProblemKind, Rejected};

use crate::area::Area;
use crate::fault::Fault;

/// The problems, each at its tokens.
pub(crate) fn faults(
    rejected: &Rejected,
    areas: &HashMap<Location, Area>,
) -> impl Iterator<Item = Fault> {
    let problems = &rejected.problems;
    let told = problems.iter().enumerate().filter(|(nth, problem)| {
        // Give each help once per place: in place, the memory is both sent and received.
        let same = |before: &Problem| before.at == problem.at && before.help == problem.help;
        problem.kind != ProblemKind::Malformed || !problems[..*nth].iter().rev().take(2).any(same)
    });
    told.map(|(_, problem)| fault(problem, &rejected.files, areas))
}

/// What is allowed, and most likely not meant, each at its tokens.
pub(crate) fn doubts(
    accepted: &Accepted,
    files: &[String],
    areas: &HashMap<Location, Area>,
) -> Vec<Fault> {
    accepted.warnings().iter().map(|problem| fault(problem, files, areas)).collect()
}

fn fault(problem: &Problem, files: &[String], areas: &HashMap<Location, Area>) -> Fault {
    let area = areas.get(&problem.at).or_else(|| areas.get(&Location::default()));
    let area = area.copied().unwrap_or_else(|| Span::call_site().into());
    Fault { area, message: message(problem, files) }
}

/// The sentence, with the smallest sizes; then which rank does what in which line; then the remedy.
fn message(problem: &Problem, files: &[String]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(problem, files, &mut text);
    text
}

fn write(problem: &Problem, files: &[String], text: &mut String) -> std::fmt::Result {
    if let Some(sizes) = &problem.sizes {
        write!(text, "for {}: ", sizes.text)?;
    }
    text.write_str(&problem.title)?;
    let widest = problem.story.iter().map(|line| line.at.line.max(1).ilog10()).max().unwrap_or(0);
    for line in &problem.story {
        let Location { file, line: number, .. } = line.at;
        text.write_str("\n  ")?;
        // Lines of the file that the compiler names anyway need no file name.
        match files.get(usize::from(file)) {
            Some(other) if file != problem.at.file => write!(text, "{other}:{number}: ")?,
            _ => write!(text, "line {number:>0$}: ", widest as usize + 1)?,
        }
        if let Some(rank) = line.rank {
            write!(text, "rank {rank} ")?;
        }
        text.write_str(&line.text)?;
    }
    for (nth, help) in problem.help.iter().enumerate() {
        let begins = if nth > 0 && help.starts_with("or ") { "      " } else { "help: " };
        write!(text, "\n{begins}{help}")?;
    }
    Ok(())
}
