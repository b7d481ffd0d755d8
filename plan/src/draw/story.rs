//! A problem's story as a picture sees it: boxes, one for each line, and arrows between them.

use super::names::clean;
use crate::verdict::{Check, Line, Problem};

/// Ranks that have a place of their own.
const RANKS: usize = 16;

/// A story, ready to be drawn.
pub(crate) struct Story<'a> {
    pub(crate) problem: &'a Problem,
    /// The ranks that it is about.
    pub(crate) ranks: Vec<usize>,
    /// The lines about one of them.
    pub(crate) lines: Vec<&'a Line>,
    /// How many lines are left out.
    pub(crate) more: usize,
    pub(crate) arrows: Vec<Arrow>,
    /// Whether the arrows are a circle: the last of them leads back to the first box.
    pub(crate) circle: bool,
}

/// From one line to another, by their places.
#[derive(Clone, Copy)]
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: ArrowKind,
}

/// What an arrow says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrowKind {
    /// One rank waits for another.
    WaitsFor,
    /// A rank does one thing after another.
    After,
    /// Both happen, in no order.
    NoOrder,
}

impl ArrowKind {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::WaitsFor => "waits for",
            Self::After => "only after",
            Self::NoOrder => "in no order",
        }
    }
}

impl<'a> Story<'a> {
    pub(crate) fn new(problem: &'a Problem) -> Self {
        let mut ranks: Vec<usize> = Vec::new();
        let mut lines = Vec::new();
        for line in &problem.story {
            let new: Vec<usize> = line
                .rank
                .into_iter()
                .chain(line.other)
                .filter(|rank| !ranks.contains(rank))
                .collect();
            if ranks.len() + new.len() > RANKS {
                break;
            }
            ranks.extend(new);
            lines.push(line);
        }
        ranks.sort_unstable();
        ranks.dedup();
        let more = problem.story.len() - lines.len();
        let mut story = Self { problem, ranks, lines, more, arrows: Vec::new(), circle: false };
        match problem.check() {
            Some(Check::Deadlock | Check::CapturedCredit) => story.waits(),
            Some(Check::Hazards | Check::ReplayHazards | Check::CommunicatorOrder)
                if story.lines.len() >= 2 =>
            {
                story.arrows.push(Arrow { from: 0, to: 1, kind: ArrowKind::NoOrder });
            }
            _ => {}
        }
        story
    }

    /// The story of a circle tells its boxes in order, each with what it waits for.
    fn waits(&mut self) {
        let many = self.lines.len();
        let leads = |from: usize, to: usize| {
            let (line, next) = (self.lines[from], self.lines[to]);
            let kind = if line.other.is_some() { ArrowKind::WaitsFor } else { ArrowKind::After };
            (line.other.or(line.rank) == next.rank).then_some(Arrow { from, to, kind })
        };
        let mut arrows: Vec<Arrow> = (1..many).filter_map(|to| leads(to - 1, to)).collect();
        let back = (self.more == 0 && many > 1).then(|| leads(many - 1, 0)).flatten();
        let circle = back.is_some() && arrows.len() + 1 == many;
        arrows.extend(back);
        (self.arrows, self.circle) = (arrows, circle);
    }

    /// The problem in one sentence, with its sizes.
    pub(crate) fn title(&self) -> String {
        let title = clean(&self.problem.title);
        match &self.problem.sizes {
            Some(sizes) if !sizes.text.is_empty() => format!("for {}: {title}", clean(&sizes.text)),
            _ => title,
        }
    }

    /// Where a line stands, and what it says.
    pub(crate) fn said(&self, line: &Line) -> (String, String) {
        let place =
            if line.at.line == 0 { String::new() } else { format!("line {}", line.at.line) };
        (place, clean(&line.text))
    }

    /// Which of the ranks' places is that of a line; a line about no rank stands with the first.
    pub(crate) fn column(&self, line: &Line) -> usize {
        let found = |rank: Option<usize>| self.ranks.iter().position(|one| Some(*one) == rank);
        found(line.rank).or_else(|| found(line.other)).unwrap_or(0)
    }
}
