//! A timeline for a terminal: a column for each rank, a line for each logical step and stream.

use std::collections::HashMap;
use std::fmt::Write;

use super::names::{Detail, clean};
use super::timeline::Timeline;
use super::width::{columns, fit};

/// The width in columns.
const WIDTH: usize = 100;
/// The most ranks to show.
const RANKS: usize = 8;
/// The most lines of steps.
const LINES: usize = 200;

pub(crate) fn draw(timeline: &Timeline<'_>) -> String {
    let ranks = timeline.ranks().min(RANKS);
    let table = Table::new(timeline, ranks);
    let mut out = format!("{}\n\n", clean(&timeline.title()));
    if timeline.hangs {
        out += "It waits in a circle: from some step on, nothing below happens.\n\n";
    }
    table.head(&mut out);
    for line in table.lines.iter().take(LINES) {
        table.line(line, &mut out);
    }
    if table.lines.len() > LINES {
        let _ = writeln!(out, "… {} more lines", table.lines.len() - LINES);
    }
    if timeline.ranks() > ranks {
        let _ = writeln!(out, "… {} more ranks", timeline.ranks() - ranks);
    }
    if table.lines.iter().any(|line| line.cells.iter().any(|cell| matches!(cell, Cell::Waits))) {
        out += ":  launched, and waits for another rank\n";
    }
    out
}

/// A rank's work on a stream at a step.
#[derive(Clone)]
enum Cell {
    Nothing,
    Waits,
    Does(String),
}

struct Line {
    step: usize,
    stream: String,
    cells: Vec<Cell>,
}

struct Table {
    lines: Vec<Line>,
    /// The widths of the step's number, the stream, and each rank.
    step: usize,
    stream: usize,
    widths: Vec<usize>,
}

impl Table {
    fn new(timeline: &Timeline<'_>, ranks: usize) -> Self {
        let step = timeline.steps.to_string().len().max(4);
        let names: Vec<String> = timeline
            .streams
            .iter()
            .map(|stream| fit(&timeline.names.stream(*stream), 12))
            .collect();
        let stream = match &names[..] {
            [] | [_] => 0,
            names => names.iter().map(|name| columns(name)).max().unwrap_or(0),
        };
        let gutter = step + 2 + if stream == 0 { 0 } else { stream + 2 };
        let room = WIDTH - gutter;
        let mut table = Self { lines: Vec::new(), step, stream, widths: Vec::new() };
        for detail in [Detail::Full, Detail::Short, Detail::Least] {
            table.lines = lines(timeline, ranks, detail, &names);
            table.widths = (0..ranks).map(|rank| table.widest(rank)).collect();
            if table.widths.iter().sum::<usize>() + 2 * ranks.saturating_sub(1) <= room {
                return table;
            }
        }
        // Still too wide: cut wide columns, all to one width.
        let mut most = room / ranks.max(1);
        while most > 6 && cut(&table.widths, most) + 2 * (ranks - 1) > room {
            most -= 1;
        }
        table.widths.iter_mut().for_each(|width| *width = (*width).min(most));
        table
    }

    fn widest(&self, rank: usize) -> usize {
        let cells = self.lines.iter().map(|line| match &line.cells[rank] {
            Cell::Does(text) => columns(text),
            Cell::Nothing | Cell::Waits => 0,
        });
        cells.max().unwrap_or(0).max(format!("rank {rank}").len())
    }

    fn head(&self, out: &mut String) {
        let ranks = (0..self.widths.len()).map(|rank| format!("rank {rank}")).collect::<Vec<_>>();
        self.row("step", if self.stream == 0 { "" } else { "on" }, &ranks, out);
    }

    fn line(&self, line: &Line, out: &mut String) {
        let cells: Vec<String> = line
            .cells
            .iter()
            .map(|cell| match cell {
                Cell::Nothing => String::new(),
                Cell::Waits => ":".to_owned(),
                Cell::Does(text) => text.clone(),
            })
            .collect();
        self.row(&line.step.to_string(), &line.stream, &cells, out);
    }

    fn row(&self, step: &str, stream: &str, cells: &[String], out: &mut String) {
        let mut line = format!("{step:>width$}", width = self.step);
        let mut cell = |text: &str, width: usize| {
            let text = fit(text, width);
            let blank = width - columns(&text);
            let _ = write!(line, "  {text}{}", " ".repeat(blank));
        };
        if self.stream > 0 {
            cell(stream, self.stream);
        }
        for (text, width) in cells.iter().zip(&self.widths) {
            cell(text, *width);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// All lines that are not empty. The streams of a step are adjacent.
fn lines(timeline: &Timeline<'_>, ranks: usize, detail: Detail, names: &[String]) -> Vec<Line> {
    let streams = timeline.streams.len();
    let at: HashMap<_, usize> = timeline.streams.iter().zip(0..).collect();
    let mut cells = vec![Cell::Nothing; timeline.steps * streams * ranks];
    for (bar, placed) in timeline.bars.iter().zip(&timeline.links.calls) {
        let rank = bar.rank as usize;
        if rank >= ranks {
            continue;
        }
        let stream = at.get(&bar.stream).copied().unwrap_or(0);
        let place = |step: usize| (step * streams + stream) * ranks + rank;
        for step in bar.start..bar.active {
            cells[place(step)] = Cell::Waits;
        }
        cells[place(bar.active)] =
            Cell::Does(words(&timeline.names.call(placed.call, detail), detail));
    }
    let rows = cells.chunks(ranks.max(1)).enumerate();
    let kept = rows.filter(|(_, cells)| !cells.iter().all(|cell| matches!(cell, Cell::Nothing)));
    kept.map(|(row, cells)| Line {
        step: row / streams,
        stream: names[row % streams].clone(),
        cells: cells.to_vec(),
    })
    .collect()
}

/// A group on one line: all of a small one; of a large one the first, and how many more.
fn words(lines: &[String], detail: Detail) -> String {
    match lines {
        [] => "-".to_owned(),
        [_] | [_, _] => lines.join(if detail == Detail::Least { " " } else { ", " }),
        [first, rest @ ..] => format!("{first} +{}", rest.len()),
    }
}

fn cut(widths: &[usize], most: usize) -> usize {
    widths.iter().map(|width| (*width).min(most)).sum()
}
