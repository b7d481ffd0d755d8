//! A problem: ranks as columns, the story from top to bottom, and arrows for waits.

use super::canvas::{ALARM, Area, CHAR, Canvas, FAINT, INK, LINE, PAPER, RULE, Towards, measure};
use crate::draw::story::{Arrow, ArrowKind, Story};
use crate::draw::width::{columns, wrap};
use crate::verdict::Line;

const MARGIN: usize = 14;
/// Padding around a box's text.
const PAD: usize = 8;
/// The gaps between columns and between boxes: room for an arrow and its words.
const BETWEEN: usize = 36;
const DOWN: usize = 44;
/// Columns of a box's text, for few ranks and for many.
const WIDE: usize = 40;
const NARROW: usize = 26;

pub(crate) fn draw(story: &Story<'_>) -> String {
    let ranks = story.ranks.len().max(1);
    let text = if ranks > 4 { NARROW } else { WIDE };
    let column = text * CHAR + 2 * PAD;
    // Room on either side for the arrow that leads back, and its words.
    let side = if story.circle { measure(ArrowKind::WaitsFor.text()) + 36 } else { 0 };
    let right = MARGIN + ranks * column + (ranks - 1) * BETWEEN;
    let width = (right + side + MARGIN).max(520);
    let room = (width - 2 * MARGIN) / CHAR;

    let mut canvas = Canvas::default();
    let mut y = MARGIN;
    for line in wrap(&format!("error: {}", story.title()), room) {
        canvas.bold(MARGIN, y, &line, ALARM);
        y += LINE;
    }
    y += 10;
    let heads = y;
    y += LINE + 14;
    let left = |nth: usize| MARGIN + nth * (column + BETWEEN);

    let boxes = boxes(story, y, column, text, &left);
    let end = boxes.last().map_or(0, |(area, ..)| area.y + area.height).max(heads + LINE);
    let areas: Vec<Area> = boxes.iter().map(|(area, ..)| *area).collect();
    lifelines(&mut canvas, story, heads, end, &left, column);
    if !story.circle {
        about(&mut canvas, story, &areas, &|nth| left(nth) + column / 2);
    }
    let colours = if story.arrows.is_empty() { (PAPER, INK) } else { ("#ffebe9", ALARM) };
    for (area, place, lines) in &boxes {
        canvas.boxed(*area, colours.0, colours.1, false);
        let mut y = area.y + PAD;
        if !place.is_empty() {
            canvas.text(area.x + PAD, y, place, FAINT);
            y += LINE;
        }
        for line in lines {
            canvas.text(area.x + PAD, y, line, INK);
            y += LINE;
        }
    }
    for arrow in &story.arrows {
        let (from, to) = (areas[arrow.from], areas[arrow.to]);
        if arrow.to > arrow.from {
            down(&mut canvas, *arrow, from, to);
        } else {
            back(&mut canvas, *arrow, from, to, right + 20);
        }
    }
    let mut y = end + 16;
    if story.more > 0 {
        canvas.text(MARGIN, y, &format!("… {} more lines of the story", story.more), FAINT);
        y += LINE + 6;
    }
    for help in &story.problem.help {
        for line in wrap(&format!("help: {help}"), room) {
            canvas.text(MARGIN, y, &line, INK);
            y += LINE;
        }
        y += 4;
    }
    canvas.finish(&story.title(), width, y + MARGIN)
}

/// The boxes with their text, below each other in the order of the story: the location of a line,
/// and its text.
fn boxes(
    story: &Story<'_>,
    mut y: usize,
    width: usize,
    text: usize,
    left: &dyn Fn(usize) -> usize,
) -> Vec<(Area, String, Vec<String>)> {
    let place = |line: &&Line| {
        let (place, said) = story.said(line);
        let lines = wrap(&said, text);
        let many = lines.len() + usize::from(!place.is_empty());
        let height = many.max(1) * LINE + 2 * PAD;
        let area = Area { x: left(story.column(line)), y, width, height };
        y += height + DOWN;
        (area, place, lines)
    };
    story.lines.iter().map(place).collect()
}

/// The ranks' names, and a line below each.
fn lifelines(
    canvas: &mut Canvas,
    story: &Story<'_>,
    y: usize,
    end: usize,
    left: &dyn Fn(usize) -> usize,
    column: usize,
) {
    for (nth, rank) in story.ranks.iter().enumerate() {
        let (name, middle) = (format!("rank {rank}"), left(nth) + column / 2);
        canvas.bold(middle - columns(&name) * CHAR / 2, y, &name, INK);
        canvas.path(&[(middle, y + LINE + 4), (middle, end)], RULE, r#" stroke-width="2""#, false);
    }
}

/// Also from each box to the rank that it is about.
fn about(canvas: &mut Canvas, story: &Story<'_>, boxes: &[Area], middle: &dyn Fn(usize) -> usize) {
    for (area, line) in boxes.iter().zip(&story.lines) {
        let other = story.ranks.iter().position(|rank| Some(*rank) == line.other);
        let Some(other) = other.filter(|_| line.rank.is_some() && line.rank != line.other) else {
            continue;
        };
        let y = area.y + area.height / 2;
        let to = middle(other);
        let from = if to < area.x { area.x } else { area.x + area.width };
        canvas.path(&[(from, y), (to, y)], FAINT, r#" stroke-dasharray="2 3""#, true);
        canvas.dot((to, y), FAINT);
    }
}

/// From a box to the next one below, with words beside the line.
fn down(canvas: &mut Canvas, arrow: Arrow, from: Area, to: Area) {
    let middle = |area: Area| area.x + area.width / 2;
    let (start, end) = (from.y + from.height, to.y);
    let turn = (start + end) / 2;
    let (a, b) = (middle(from), middle(to));
    let ink = ALARM;
    let words = arrow.kind.text();
    let style = if arrow.kind == ArrowKind::NoOrder {
        r#" stroke-width="2" stroke-dasharray="6 4""#
    } else {
        r#" stroke-width="2""#
    };
    if a == b {
        canvas.path(&[(a, start), (b, end - 5)], ink, style, false);
        canvas.text(a + CHAR, turn - LINE / 2, words, ink);
    } else {
        canvas.path(&[(a, start), (a, turn), (b, turn), (b, end - 5)], ink, style, false);
        // Above the horizontal part, at its middle.
        let (width, y) = (measure(words), turn - LINE - 2);
        let x = (a + b) / 2 - width / 2;
        canvas.fill(Area { x: x - 2, y, width: width + 4, height: LINE }, 0, PAPER);
        canvas.text(x, y, words, ink);
    }
    if arrow.kind == ArrowKind::NoOrder {
        canvas.dot((a, start), ink);
        canvas.dot((b, end), ink);
    } else {
        canvas.head((b, end), Towards::Down, ink);
    }
}

/// From the last box back to the first, around all others, which closes the cycle.
fn back(canvas: &mut Canvas, arrow: Arrow, from: Area, to: Area, x: usize) {
    let (start, end) = (from.y + from.height / 2, to.y + to.height / 2);
    let points = [(from.x + from.width, start), (x, start), (x, end), (to.x + to.width + 5, end)];
    canvas.path(&points, ALARM, r#" stroke-width="2""#, true);
    canvas.head((to.x + to.width, end), Towards::Left, ALARM);
    canvas.text(x + CHAR, (start + end) / 2 - LINE / 2, arrow.kind.text(), ALARM);
}
