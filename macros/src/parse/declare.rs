//! Declarations of memory, streams, signals, communicators and names.

use proc_macro2::{Delimiter, Ident, Span, TokenTree};
use typed_nccl_plan::ir::Role;

use super::block::Said;
use super::cursor::Cursor;
use super::expr;
use crate::ast::{Expr, ExprKind, Memory, MemoryName, Place, StatementKind, text};
use crate::fault::{Fault, Parsed};
use crate::nearest::nearest;

/// `inout swapped window u, v: [T; m]`. Whatever is wrong behind the names, they are declared.
pub(super) fn memory(cursor: &mut Cursor, role: &Ident, faults: &mut Vec<Fault>) -> Parsed<Said> {
    let role_word = role;
    let role = match &*role.to_string() {
        "in" => Role::In,
        "out" => Role::Out,
        "inout" => Role::InOut,
        _ => Role::Local,
    };
    let (mut swapped, mut window) = (false, false);
    // The words are names where a name's colon, comma or bracket follows.
    while matches!(cursor.peek(1), Some(TokenTree::Ident(_))) {
        if cursor.take_word("swapped") {
            swapped = true;
        } else if cursor.take_word("window") {
            window = true;
        } else if let Some(fault) = no_word(cursor) {
            faults.push(fault);
            cursor.next();
        } else {
            break;
        }
    }
    let mut names = vec![name(cursor)?];
    let mut apart: Option<Span> = None;
    loop {
        if !cursor.take_punct(",") {
            // `a b: [T; len]`
            if !matches!(cursor.peek(0), Some(TokenTree::Ident(_))) {
                break;
            }
            apart.get_or_insert_with(|| cursor.span());
        }
        names.push(name(cursor)?);
    }
    let (element, len) = match holds(cursor) {
        Ok((element, len)) => (Some(element), Some(len)),
        Err(fault) => {
            faults.push(fault);
            while !cursor.is_empty() && !cursor.is_punct(0, ";") {
                cursor.next();
            }
            (None, None)
        }
    };
    if let Some(span) = apart {
        let fault = Fault::new(span, "names are separated by `,`");
        let all: Vec<String> = names.iter().map(|one| text(&one.name)).collect();
        let element = element.as_ref().map_or_else(|| "T".to_owned(), text);
        let len = len.as_ref().map_or_else(|| "len".to_owned(), ToString::to_string);
        let all = all.join(", ");
        // With an array among them the names alone are not all there is to write.
        let help = format!("write `{role_word} {all}: [{element}; {len}];`");
        let plain = names.iter().all(|one| one.array.is_none());
        faults.push(fault.maybe_help(plain.then_some(help)));
    }
    let memory = Memory { role, swapped, window, names, element, len };
    Ok((StatementKind::Memory(memory), Place::default()))
}

/// That the word that stands here is none of those before a name, where it was meant as one.
fn no_word(cursor: &Cursor) -> Option<Fault> {
    const FOREIGN: [&str; 7] =
        ["symmetric", "registered", "shared", "mut", "const", "double", "static"];
    let word = cursor.peek(0)?.to_string();
    let near = nearest(&word, ["swapped", "window"].into_iter());
    let fault = Fault::new(cursor.span(), format!("memory is not `{word}`"));
    match near {
        Some(near) => Some(fault.help(format!("did you mean `{near}`?"))),
        None if FOREIGN.contains(&&*word) => Some(fault.help(
            "before its name stand a role, then `swapped`, then `window`: `inout swapped window u: [T; m];`",
        )),
        None => None,
    }
}

/// The type and the number of the elements.
fn holds(cursor: &mut Cursor) -> Parsed<(Ident, Expr)> {
    let form = "and what the memory holds, as in `a: [T; len]`";
    cursor.punct(":", form)?;
    let mut holds = cursor.group(Delimiter::Bracket, &format!("`[` {form}"))?;
    let element = holds.name("the type of the elements")?;
    holds.punct(";", "and the number of elements, as in `[T; len]`")?;
    let len = expr::expr(&mut holds)?;
    holds.end("`]`")?;
    Ok((element, len))
}

fn name(cursor: &mut Cursor) -> Parsed<MemoryName> {
    let name = cursor.name("the name of the memory, as in `in a: [T; len];`")?;
    if !cursor.is_group(0, Delimiter::Bracket) {
        return Ok(MemoryName { name, array: None });
    }
    let form = "an array's index and its count, as in `g[i in 0..k]`";
    let mut inside = cursor.group(Delimiter::Bracket, form)?;
    let index = inside.name(form)?;
    if !inside.take_word("in") {
        return Err(
            inside.expected("`in`: an array says its index and its count, as in `g[i in 0..k]`")
        );
    }
    let expr::Range { from: Some(Expr { kind: ExprKind::Int(0), .. }), to: Some(count), .. } =
        expr::range(&mut inside)?
    else {
        return Err(Fault::new(index.span(), "the buffers of an array are counted from 0")
            .help(format!("write `{name}[{index} in 0..count]`")));
    };
    inside.end("`]`")?;
    Ok(MemoryName { name, array: Some((index, count)) })
}

pub(super) fn names(
    cursor: &mut Cursor,
    what: &str,
    kind: impl FnOnce(Vec<Ident>) -> StatementKind,
    faults: &mut Vec<Fault>,
) -> Parsed<Said> {
    let mut names = vec![cursor.name(&format!("the name of a {what}"))?];
    loop {
        if !cursor.take_punct(",") {
            // `stream net cmp;`
            let apart = matches!(cursor.peek(0), Some(TokenTree::Ident(_)))
                && (cursor.is_punct(1, ";") || cursor.is_punct(1, ","));
            if !apart {
                break;
            }
            faults.push(Fault::new(cursor.span(), "names are separated by `,`"));
        }
        names.push(cursor.name(&format!("the name of another {what}"))?);
    }
    Ok((kind(names), Place::default()))
}

pub(super) fn communicator(cursor: &mut Cursor) -> Parsed<Said> {
    let form = "as in `comm node along local;`";
    let name = cursor.name(&format!("a communicator's name, {form}"))?;
    cursor.word("along", &format!("and the axes along which its ranks differ, {form}"))?;
    let mut along = vec![cursor.name("an axis")?];
    while cursor.take_punct(",") {
        along.push(cursor.name("another axis")?);
    }
    Ok((StatementKind::Communicator { name, along }, Place::default()))
}

pub(super) fn named(cursor: &mut Cursor) -> Parsed<Said> {
    let name = cursor.name("a name, as in `let left = (rank - 1) % n;`")?;
    cursor.punct("=", "and what the name stands for")?;
    let value = expr::expr(cursor)?;
    Ok((StatementKind::Let { name, value }, Place::default()))
}
