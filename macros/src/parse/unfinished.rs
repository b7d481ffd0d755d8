//! Errors for tokens in place of a statement's `;`.

use proc_macro2::TokenTree;

use super::cursor::Cursor;
use super::{expr, words};
use crate::ast::{StatementKind, StreamClause, text};
use crate::fault::Fault;
use crate::nearest::nearest;

/// Words that introduce a set of ranks in other languages.
const AMONG: [&str; 7] = ["among", "over", "through", "via", "within", "comm", "along"];

/// The error that a statement, parsed up to here, does not end here.
pub(super) fn unfinished(cursor: &Cursor, kind: &StatementKind, place: &StreamClause) -> Fault {
    let next = cursor.peek(0).map(ToString::to_string).unwrap_or_default();
    if let Some(fault) = among(cursor, kind, &next) {
        return fault;
    }
    match &*next {
        "on" | "after" if is_placed(kind) => {
            return Fault::new(cursor.span(), "this says twice where the statement runs")
                .help("the order is `on stream after others`: `send a to p on net after cmp;`");
        }
        "computes" if matches!(kind, StatementKind::Run { .. }) => {
            return Fault::new(cursor.span(), "what a step computes goes before its stream").help(
                "the order is `run add(read a, update b) computes b += a on stream after others;`",
            );
        }
        "from" if is_equation(kind) => {
            return cursor.expected("`;`").help("memory of another rank is `a of rank - 1`");
        }
        "into" | "to" | "from" | "signal" => {
            return cursor.expected("`;`").help(
                "the order is `send a to p into b;`, `put a to p into b signal s;`, `recv b from p;`",
            );
        }
        _ => {}
    }
    let clauses = clauses(kind, place);
    // A word that begins a statement is not a typo.
    let begins = words::all().any(|word| word == next);
    let near = nearest(&next, clauses.iter().copied()).filter(|_| !begins);
    let arrow = cursor.is_punct(0, "->") && clauses.contains(&"into");
    let word =
        matches!(cursor.peek(0), Some(TokenTree::Ident(_))) && on_this_line(cursor) && !begins;
    let list = !place.after.is_empty();
    if near.is_none() && !arrow && !(word && (list || !clauses.is_empty())) {
        let title = "a statement ends with `;`, which is missing after this";
        return Fault::new(cursor.last(), title);
    }
    let mut expected: Vec<String> = clauses.iter().map(|clause| format!("`{clause}`")).collect();
    expected.extend(list.then(|| "`,`".to_owned()));
    let fault = if expected.is_empty() {
        cursor.expected("`;`")
    } else {
        cursor.expected(&format!("{} or `;`", expected.join(", ")))
    };
    let arrow = arrow.then(|| into(cursor, kind)).flatten();
    let help = near.map(|near| format!("did you mean `{near}`?")).or(arrow);
    fault.maybe_help(help.or_else(|| list.then(|| "names are separated by `,`".to_owned())))
}

/// Whether the next token is on the line of the one before.
pub(super) fn on_this_line(cursor: &Cursor) -> bool {
    cursor.span().start().line == cursor.last().end().line
}

fn is_placed(kind: &StatementKind) -> bool {
    kind.message().is_some()
        || matches!(kind, StatementKind::Run { .. } | StatementKind::Assign { .. })
}

/// The clauses that this statement may still have.
fn clauses(kind: &StatementKind, place: &StreamClause) -> Vec<&'static str> {
    let mut clauses = Vec::new();
    if !is_placed(kind) {
        return clauses;
    }
    let placed = place.on.is_some() || !place.after.is_empty();
    match kind {
        StatementKind::Send { into: None, .. } if !placed => clauses.push("into"),
        StatementKind::Put { signal: None, .. } if !placed => clauses.push("signal"),
        StatementKind::Run { computes, .. } if computes.is_empty() && !placed => {
            clauses.push("computes");
        }
        _ => {}
    }
    if !placed {
        clauses.push("on");
    }
    if place.after.is_empty() {
        clauses.push("after");
    }
    clauses
}

/// `send a to p -> b`, as written.
fn into(cursor: &Cursor, kind: &StatementKind) -> Option<String> {
    let mut ahead = cursor.clone();
    ahead.take_punct("->");
    let into = expr::expr(&mut ahead).ok()?;
    Some(format!("write `{} into {into};`", kind.message()?))
}

/// `all_reduce(x, sum) among node`
fn among(cursor: &Cursor, kind: &StatementKind, next: &str) -> Option<Fault> {
    let message = kind.message()?;
    let Some(TokenTree::Ident(name)) = cursor.peek(1) else { return None };
    if !AMONG.contains(&next) || !on_this_line(cursor) {
        return None;
    }
    let area = crate::area::Area { first: cursor.span(), last: name.span() };
    let name = text(name);
    let help = match next {
        "along" => format!(
            "declare one along that axis, and write it in front: `comm part along {name};`, `part.{message};`"
        ),
        _ => format!("write `{name}.{message};`"),
    };
    Some(Fault::new(area, "a communicator goes in front").help(help))
}

/// Whether memory of other ranks stands in it as `a of rank - 1`.
fn is_equation(kind: &StatementKind) -> bool {
    matches!(kind, StatementKind::Assign { .. } | StatementKind::Claims(_) | StatementKind::Here(_))
}
