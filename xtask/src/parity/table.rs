//! The handwritten table.

use std::fmt;
use std::fs;

use super::Name;
use super::tree::Tree;
use crate::{Check, Failure, root};

/// Relative to the workspace.
const PATH: &str = "xtask/src/parity/table.txt";

/// How much of a name is supported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rating {
    /// All of it.
    Yes,
    /// Part of it: the note says what is missing.
    Part,
    /// None of it: the note says why.
    No,
    /// Not applicable: the note says why.
    None,
}

impl Rating {
    pub(super) const ALL: [Self; 4] = [Self::Yes, Self::Part, Self::No, Self::None];
}

impl fmt::Display for Rating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::Part => "part",
            Self::No => "no",
            Self::None => "none",
        })
    }
}

/// A row of the table.
pub(super) struct Row {
    line: usize,
    /// A name, a prefix of names and `*`, or `*(parameter)`.
    pattern: String,
    pub(super) rating: Rating,
    pub(super) items: Vec<String>,
    pub(super) tests: Vec<String>,
    pub(super) note: String,
}

impl Row {
    fn parse(line: usize, text: &str) -> Option<Self> {
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let [pattern, rating, items, tests, note] = cells[..] else { return None };
        let rating = Rating::ALL.into_iter().find(|known| known.to_string() == rating)?;
        let list = |cell: &str| {
            let cells = cell.split(',').map(str::trim).filter(|it| !it.is_empty());
            cells.map(str::to_owned).collect()
        };
        let (pattern, note) = (pattern.to_owned(), note.to_owned());
        Some(Self { line, pattern, rating, items: list(items), tests: list(tests), note })
    }

    /// How well it fits a name; `None` if not at all.
    fn fits(&self, name: &str) -> Option<(bool, bool, usize)> {
        let (start, is_open) = match self.pattern.as_str() {
            pattern if pattern == name => return Some((true, true, 0)),
            pattern if pattern.starts_with("*(") => {
                return name.ends_with(&pattern[1..]).then_some((false, false, pattern.len()));
            }
            pattern => match pattern.strip_suffix("(*)") {
                Some(start) => (start, true),
                None => (pattern.strip_suffix('*')?, false),
            },
        };
        let rest = name.strip_prefix(start)?;
        (!is_open || rest.starts_with('(')).then_some((false, true, start.len()))
    }

    /// The errors in it.
    pub(super) fn faults(&self, tree: &Tree) -> Vec<String> {
        let mut faults = Vec::new();
        let at = format!("table.txt:{}: {}", self.line, self.pattern);
        let has_something = matches!(self.rating, Rating::Yes | Rating::Part);
        if has_something && (self.items.is_empty() || self.tests.is_empty()) {
            faults.push(format!("{at}: rated {} without an item and a test", self.rating));
        }
        if self.rating != Rating::Yes && self.note.is_empty() {
            faults.push(format!("{at}: rated {} without a note", self.rating));
        }
        let items = self.items.iter().filter(|item| !tree.has_item(item));
        faults.extend(items.map(|item| format!("{at}: there is no item {item}")));
        let mut named = Vec::new();
        for test in &self.tests {
            match tree.named(test) {
                Some(names) if self.items.iter().any(|item| names.has(item)) => named.push(names),
                Some(_) => faults.push(format!("{at}: {test} names nothing of the row")),
                None => faults.push(format!("{at}: there is no test {test}")),
            }
        }
        let is_named = |item: &&String| named.iter().any(|names| names.has(item));
        let unnamed = self.items.iter().filter(|item| !is_named(item));
        faults.extend(unnamed.map(|item| format!("{at}: no test of the row names {item}")));
        faults
    }

    /// The files of its tests.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter_map(|test| Some(test.rsplit_once(':')?.0))
    }
}

pub(super) struct Table(Vec<Row>);

/// The names with their rows, and the unmatched halves.
pub(super) struct Joined<'n> {
    pub(super) rows: Vec<(&'n Name, &'n Row)>,
    pub(super) wrong: Vec<String>,
}

impl Table {
    pub(super) fn read() -> Check<Self> {
        let text = fs::read_to_string(root().join(PATH));
        let text = text.map_err(|error| Failure::NotMade(format!("{PATH}: {error}")))?;
        let lines = text.lines().zip(1..);
        let rows = lines.filter(|(text, _)| !text.is_empty() && !text.starts_with('#'));
        let row = |(text, line)| {
            let what = format!("table.txt:{line} is no row: {text}");
            Row::parse(line, text).ok_or(Failure::Broken(what))
        };
        rows.map(row).collect::<Check<_>>().map(Self)
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.0
    }

    pub(super) fn join<'n>(&'n self, names: &'n [Name]) -> Joined<'n> {
        let mut joined = Joined { rows: Vec::new(), wrong: Vec::new() };
        let mut used = vec![false; self.0.len()];
        for name in names {
            let fitting = self.0.iter().enumerate();
            let fitting = fitting.filter_map(|(at, row)| Some((row.fits(&name.name)?, at)));
            match fitting.max() {
                Some((_, at)) => {
                    used[at] = true;
                    joined.rows.push((name, &self.0[at]));
                }
                None => joined.wrong.push(format!("no row for {} of {}", name.name, name.module)),
            }
        }
        let unused = self.0.iter().zip(used).filter(|(_, used)| !used);
        let wrong = |(row, _): (&Row, bool)| {
            format!(
                "table.txt:{}: nccl4py has no {}, or other rows have all",
                row.line, row.pattern
            )
        };
        joined.wrong.extend(unused.map(wrong));
        joined
    }
}
