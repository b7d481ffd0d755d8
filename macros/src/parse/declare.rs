//! Declarations of memory, streams, signals, communicators and names.

use proc_macro2::{Delimiter, Ident};
use typed_nccl_plan::ir::Role;

use super::block::Said;
use super::cursor::Cursor;
use super::expr;
use crate::ast::{Expr, ExprKind, Memory, MemoryName, Place, StatementKind};
use crate::fault::{Fault, Parsed};

/// `inout swapped window u, v: [T; m]`. Whatever is wrong behind the names, they are declared.
pub(super) fn memory(cursor: &mut Cursor, role: &Ident, faults: &mut Vec<Fault>) -> Parsed<Said> {
    let role = match &*role.to_string() {
        "in" => Role::In,
        "out" => Role::Out,
        "inout" => Role::InOut,
        _ => Role::Local,
    };
    let (mut swapped, mut window) = (false, false);
    // The words are names where a name's colon, comma or bracket follows.
    while matches!(cursor.peek(1), Some(proc_macro2::TokenTree::Ident(_))) {
        if cursor.take_word("swapped") {
            swapped = true;
        } else if cursor.take_word("window") {
            window = true;
        } else {
            let word = cursor.name("a name")?;
            return Err(Fault::new(word.span(), format!("memory is not `{word}`"))
                .help("before its name stand a role, then `swapped`, then `window`: `inout swapped window u: [T; m];`"));
        }
    }
    let mut names = vec![name(cursor)?];
    while cursor.take_punct(",") {
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
    let memory = Memory { role, swapped, window, names, element, len };
    Ok((StatementKind::Memory(memory), Place::default()))
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
) -> Parsed<Said> {
    let mut names = vec![cursor.name(&format!("the name of a {what}"))?];
    while cursor.take_punct(",") {
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
