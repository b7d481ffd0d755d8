//! Lists of constants: `const edges = [(0, 1), (1, 3)];`, `for (a, b) in edges { .. }`.

use proc_macro2::{Delimiter, Group, Ident, TokenTree};

use super::block::{Counts, Said};
use super::cursor::Cursor;
use super::expr;
use crate::ast::{Counted, Expr, Listed, Row, StatementKind, StreamClause};
use crate::fault::{Fault, Parsed};

/// The part after `const`.
pub(super) fn constant(cursor: &mut Cursor) -> Parsed<Said> {
    let form = "as in `const edges = [(0, 1), (1, 3)];`";
    let name = cursor.name(&format!("a name, {form}"))?;
    cursor.punct("=", &format!("and a list, {form}"))?;
    if !cursor.is_group(0, Delimiter::Bracket) {
        let fault = cursor.expected(&format!("a list in brackets, {form}"));
        return Err(fault.help("a single number, memory or another rank is named with `let`"));
    }
    let rows = rows(cursor)?;
    Ok((StatementKind::Const { name, rows }, StreamClause::default()))
}

/// What a loop goes through.
pub(super) enum Turns {
    Rows(Vec<Ident>, Listed),
    Counted(Box<Counted>),
}

/// `(a, b) in edges`, `i in 0..k`; this parses the range.
pub(super) fn turns(
    cursor: &mut Cursor,
    form: &str,
    counts: impl FnOnce(&mut Cursor) -> Parsed<Counts>,
) -> Parsed<Turns> {
    let names = names(cursor, form)?;
    cursor.word("in", form)?;
    if let Some(list) = listed(cursor)? {
        return Ok(Turns::Rows(names, list));
    }
    let counter = counter(names)?;
    let (powers, range) = counts(cursor)?;
    let expr::Range { from: Some(from), to: Some(to), .. } = range else {
        return Err(Fault::new(cursor.last(), "a loop counts from a number to another")
            .help(format!("write both ends, {form}")));
    };
    Ok(Turns::Counted(Box::new(Counted { counter, from, to, powers })))
}

/// The names of a loop: `d`, or `(a, b)`.
fn names(cursor: &mut Cursor, form: &str) -> Parsed<Vec<Ident>> {
    if !cursor.is_group(0, Delimiter::Parenthesis) {
        return Ok(vec![cursor.name(&format!("a counter, {form}"))?]);
    }
    let mut inside = cursor.group(Delimiter::Parenthesis, "`(`")?;
    let mut names = vec![inside.name("a name for each number of a row, as in `(a, b)`")?];
    while inside.take_punct(",") && !inside.is_empty() {
        names.push(inside.name("a name for each number of a row, as in `(a, b)`")?);
    }
    inside.end("`,` or `)`")?;
    Ok(names)
}

/// The name of a loop that counts.
fn counter(mut names: Vec<Ident>) -> Parsed<Ident> {
    match names.pop() {
        Some(counter) if names.is_empty() => Ok(counter),
        last => {
            let area = last.map_or_else(proc_macro2::Span::call_site, |name| name.span());
            let fault = Fault::new(area, "a loop that counts has one counter");
            Err(fault
                .help("several names are for the rows of a list: `for (a, b) in [(0, 1), (1, 3)]`"))
        }
    }
}

/// A list in brackets, or its name before a block; otherwise a range follows.
fn listed(cursor: &mut Cursor) -> Parsed<Option<Listed>> {
    if cursor.is_group(0, Delimiter::Bracket) {
        return rows(cursor).map(|rows| Some(Listed::Rows(rows)));
    }
    let is_name = matches!(cursor.peek(0), Some(TokenTree::Ident(_)));
    if is_name && cursor.is_group(1, Delimiter::Brace) {
        return cursor.name("a list").map(|name| Some(Listed::Named(name)));
    }
    Ok(None)
}

/// Whether a list of rows comes next.
pub(super) fn is_rows(cursor: &Cursor) -> bool {
    let Some(TokenTree::Group(group)) = cursor.peek(0) else { return false };
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Group(row)) if is_row(&row))
}

/// Whether it is numbers in parentheses.
fn is_row(group: &Group) -> bool {
    let mut tokens = group.stream().into_iter();
    let is_comma = |token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
    group.delimiter() == Delimiter::Parenthesis && tokens.any(is_comma)
}

/// `[1, 2, 4]`, `[(0, 1), (1, 3)]`
fn rows(cursor: &mut Cursor) -> Parsed<Vec<Row>> {
    let mut inside = cursor.group(Delimiter::Bracket, "`[`")?;
    let mut rows = Vec::new();
    while !inside.is_empty() {
        let first = inside.span();
        let numbers = row(&mut inside)?;
        rows.push(Row { numbers, area: inside.since(first) });
        if !inside.is_empty() && !inside.take_punct(",") {
            return Err(inside.expected("`,` or `]`"));
        }
    }
    Ok(rows)
}

/// A number, or several in parentheses.
fn row(cursor: &mut Cursor) -> Parsed<Vec<Expr>> {
    match cursor.peek(0) {
        Some(TokenTree::Group(group)) if is_row(group) => {
            let mut inside = Cursor::of(group);
            cursor.next();
            expr::list(&mut inside)
        }
        _ => Ok(vec![expr::expr(cursor)?]),
    }
}
