//! A problem's story for pictures: boxes, one per line, and arrows between them.

use super::names::clean;
use crate::verdict::{Check, Line, Problem};

/// The most ranks to show separately.
const RANKS: usize = 16;

/// A story, ready to be drawn.
pub(crate) struct Story<'a> {
    pub(crate) problem: &'a Problem,
    /// The ranks that it is about.
    pub(crate) ranks: Vec<usize>,
    /// The lines about these ranks.
    pub(crate) lines: Vec<&'a Line>,
    /// How many lines are left out.
    pub(crate) more: usize,
    pub(crate) arrows: Vec<Arrow>,
    /// Whether the arrows form a cycle: the last of them leads back to the first box.
    pub(crate) circle: bool,
}

/// From one line to another, by index.
#[derive(Clone, Copy)]
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: ArrowKind,
}

/// The meaning of an arrow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrowKind {
    /// One rank waits for another.
    WaitsFor,
    /// A rank does one thing after another.
    After,
    /// Both happen, unordered.
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

    /// The story of a cycle lists its boxes in order, each with the one it waits for.
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

    /// The location of a line, and its text.
    pub(crate) fn said(&self, line: &Line) -> (String, String) {
        let place =
            if line.at.line == 0 { String::new() } else { format!("line {}", line.at.line) };
        (place, clean(&line.text))
    }

    /// The column of a line's rank; a line about no rank is in the first.
    pub(crate) fn column(&self, line: &Line) -> usize {
        let found = |rank: Option<usize>| self.ranks.iter().position(|one| Some(*one) == rank);
        found(line.rank).or_else(|| found(line.other)).unwrap_or(0)
    }
}
