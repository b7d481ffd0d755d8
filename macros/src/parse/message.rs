//! Messages, puts, signals and waits.

use proc_macro2::Ident;

use super::cursor::Cursor;
use super::expr;
use crate::ast::{Awaited, ExprKind, StatementKind};
use crate::fault::{Fault, Parsed};

/// `send a to p`, `send a to p into b`
pub(super) fn send(cursor: &mut Cursor, through: Option<Ident>) -> Parsed<StatementKind> {
    let from = expr::expr(cursor)?;
    cursor.word("to", "and the rank that gets it, as in `send a to (rank + 1) % n into b;`")?;
    let peer = expr::expr(cursor)?;
    let into = if cursor.take_word("into") { Some(expr::expr(cursor)?) } else { None };
    Ok(StatementKind::Send { through, from, peer, into })
}

/// `recv b from p`
pub(super) fn receive(cursor: &mut Cursor, through: Option<Ident>) -> Parsed<StatementKind> {
    let into = expr::expr(cursor)?;
    cursor.word("from", "and the rank that sends it, as in `recv b from (rank - 1) % n;`")?;
    let peer = expr::expr(cursor)?;
    Ok(StatementKind::Receive { through, into, peer })
}

/// `put u[a..b] to p into u[c..d] signal s`
pub(super) fn put(cursor: &mut Cursor, through: Option<Ident>) -> Parsed<StatementKind> {
    let form = "as in `put u[..h] to p into u[h..2 * h] signal s;`";
    let from = expr::expr(cursor)?;
    cursor.word("to", &format!("and the rank whose window is written, {form}"))?;
    let peer = expr::expr(cursor)?;
    cursor.word("into", &format!("and the part of its window, {form}"))?;
    let into = expr::expr(cursor)?;
    let signal = if cursor.take_word("signal") { Some(cursor.name("a signal")?) } else { None };
    Ok(StatementKind::Put { through, from, peer, into, signal })
}

/// `signal s to p`
pub(super) fn signal(cursor: &mut Cursor, through: Option<Ident>) -> Parsed<StatementKind> {
    let signal = cursor.name("a signal, as in `signal s to p;`")?;
    cursor.word("to", "and the rank at which it is raised, as in `signal s to p;`")?;
    let peer = expr::expr(cursor)?;
    Ok(StatementKind::Signal { through, signal, peer })
}

/// `wait hi from right, 2 of lo from left`
pub(super) fn wait(cursor: &mut Cursor, through: Option<Ident>) -> Parsed<StatementKind> {
    let form = "as in `wait hi from right, 2 of lo from left;`";
    let mut signals = Vec::new();
    loop {
        let first = expr::expr(cursor)?;
        let (times, signal) = if cursor.take_word("of") {
            (Some(first), cursor.name(&format!("a signal, {form}"))?)
        } else {
            match first.kind {
                ExprKind::Name(signal) => (None, signal),
                _ => {
                    return Err(Fault::new(first.area, "expected the name of a signal")
                        .help(format!("a number of signals is awaited with `of`, {form}")));
                }
            }
        };
        cursor.word("from", &format!("and the rank that raises it, {form}"))?;
        let peer = expr::expr(cursor)?;
        signals.push(Awaited { times, signal, peer });
        if !cursor.take_punct(",") {
            return Ok(StatementKind::Wait { through, signals });
        }
    }
}
