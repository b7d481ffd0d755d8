//! The user's own work: `run name(i, read a, write b, update c)`.

use proc_macro2::{Delimiter, TokenTree};

use super::block::{Said, place};
use super::cursor::Cursor;
use super::expr;
use crate::ast::{Argument, ArgumentKind, StatementKind};
use crate::fault::{Fault, Parsed};
use crate::nearest::nearest;

const KINDS: [(&str, ArgumentKind); 3] = [
    ("read", ArgumentKind::Read),
    ("write", ArgumentKind::Write),
    ("update", ArgumentKind::Update),
];

/// Words of other languages, and what is ours for them.
const FOREIGN: [(&str, &str); 9] = [
    ("in", "read"),
    ("reads", "read"),
    ("out", "write"),
    ("writes", "write"),
    ("readwrite", "update"),
    ("read_write", "update"),
    ("inout", "update"),
    ("mut", "update"),
    ("rw", "update"),
];

pub(super) fn run(cursor: &mut Cursor) -> Parsed<Said> {
    let name = cursor.name("the name of your computation, as in `run pack(read u, write v);`")?;
    let mut inside = cursor
        .group(Delimiter::Parenthesis, "what the computation gets, as in `(i, read u, write v)`")?;
    let mut arguments = Vec::new();
    while !inside.is_empty() {
        let kind = kind(&mut inside)?;
        arguments.push(Argument { kind, value: expr::expr(&mut inside)? });
        if !inside.take_punct(",") {
            inside.end("`,` or `)`")?;
        }
    }
    Ok((StatementKind::Run { name, arguments }, place(cursor)?))
}

fn kind(inside: &mut Cursor) -> Parsed<ArgumentKind> {
    // A number may have the name of a kind; then nothing that is a region follows.
    let Some(TokenTree::Ident(second)) = inside.peek(1) else { return Ok(ArgumentKind::Number) };
    let Some(TokenTree::Ident(first)) = inside.peek(0) else { return Ok(ArgumentKind::Number) };
    let (first, second) = (first.to_string(), second.to_string());
    if let Some((_, kind)) = KINDS.iter().find(|(word, _)| *word == first) {
        inside.next();
        return Ok(*kind);
    }
    let foreign = FOREIGN.iter().find(|(foreign, _)| *foreign == first).map(|(_, ours)| *ours);
    let near = foreign.or_else(|| nearest(&first, KINDS.iter().map(|(word, _)| *word)));
    let fault: Fault = inside.expected("`read`, `write` or `update`");
    Err(match near {
        Some(near) => fault.help(format!("did you mean `{near} {second}`?")),
        None if KINDS.iter().any(|(word, _)| *word == second) => {
            fault.help(format!("write `{second} {first}`"))
        }
        None => fault,
    })
}
