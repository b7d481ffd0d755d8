//! Declarations of memory, streams, signals, communicators and names.

use proc_macro2::{Delimiter, Ident, Span, TokenTree};
use typed_nccl_plan::ir::Role;

use super::block::Said;
use super::broken::to_end;
use super::cursor::Cursor;
use super::{expr, listed};
use crate::ast::{Expr, ExprKind, Memory, MemoryName, StatementKind, StreamClause, text};
use crate::fault::{Fault, Parsed};
use crate::nearest::nearest;

/// `inout swapped window u, v: [T; m]`. Its names are declared even after an error. If the role is
/// missing, it is taken to be `inout`.
pub(super) fn memory(
    cursor: &mut Cursor,
    role: Option<&Ident>,
    faults: &mut Vec<Fault>,
) -> Parsed<Said> {
    if role.is_none() {
        faults.push(no_role(cursor));
    }
    let role_word = role.map_or_else(|| "inout".to_owned(), Ident::to_string);
    let role = match &*role_word {
        "in" => Role::In,
        "out" => Role::Out,
        "local" => Role::Local,
        _ => Role::InOut,
    };
    let (mut swapped, mut window) = (false, false);
    // The words are names if a name's colon, comma or bracket follows.
    while cursor.is_name(1) {
        let said = [(swapped, "swapped"), (window, "window"), (true, &*role_word)];
        if let Some((_, word)) = said.iter().find(|(said, word)| *said && cursor.is_word(0, word)) {
            faults.push(Fault::new(cursor.span(), format!("`{word}` is written twice")));
            cursor.next();
        } else if cursor.take_word("swapped") {
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
    let Names { names, nameless, apart } = Names::read(cursor, faults);
    let (element, len) = if nameless && !cursor.is_punct(0, ":") {
        to_end(cursor);
        (None, None)
    } else {
        holds(cursor, faults)
    };
    if let Some(span) = apart {
        let fault = Fault::new(span, "names are separated by `,`");
        let all: Vec<String> = names.iter().map(|one| text(&one.name)).collect();
        let element = element.as_ref().map_or_else(|| "T".to_owned(), text);
        let len = len.as_ref().map_or_else(|| "len".to_owned(), ToString::to_string);
        let all = all.join(", ");
        // With an array among them, the names alone do not make up the line.
        let help = format!("write `{role_word} {all}: [{element}; {len}];`");
        let plain = names.iter().all(|one| one.array.is_none());
        faults.push(fault.maybe_help(plain.then_some(help)));
    }
    let memory = Memory { role, swapped, window, names, nameless, element, len };
    Ok((StatementKind::Memory(memory), StreamClause::default()))
}

/// Whether this is a declaration of memory without a role.
pub(super) fn is_memory(cursor: &Cursor) -> bool {
    let mut ahead = cursor.clone();
    while ahead.is_name(0) || ahead.is_punct(0, ",") || ahead.is_group(0, Delimiter::Bracket) {
        ahead.next();
    }
    ahead.is_punct(0, ":")
}

fn no_role(cursor: &Cursor) -> Fault {
    let name = cursor.peek(0).map(ToString::to_string).unwrap_or_default();
    if ["swapped", "window"].contains(&&*name) && cursor.is_name(1) {
        return Fault::new(cursor.span(), format!("no statement begins with `{name}`"))
            .help(format!("did you mean `inout {name}`?"));
    }
    Fault::new(cursor.span(), "a declaration begins with `in`, `out`, `inout` or `local`")
        .help(format!("as in `inout {name}: ..`: the caller fills it, and the plan writes it"))
}

/// The names of memory.
#[derive(Default)]
struct Names {
    names: Vec<MemoryName>,
    /// One is missing, which was reported.
    nameless: bool,
    /// The start of the first name that is not separated from the one before.
    apart: Option<Span>,
}

impl Names {
    fn read(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Self {
        let mut read = Self::default();
        loop {
            let Some(TokenTree::Ident(name)) = cursor.peek(0).cloned() else {
                faults.push(cursor.expected("the name of the memory, as in `in a: [T; len];`"));
                read.nameless = true;
                cursor
                    .skip_to(|cursor| [",", ":", ";"].iter().any(|sign| cursor.is_punct(0, sign)));
                if cursor.take_punct(",") {
                    continue;
                }
                return read;
            };
            // A name repeated right after itself is declared once.
            if read.apart.is_some() && read.names.last().is_some_and(|last| last.name == name) {
                read.names.pop();
            }
            let told = faults.len();
            read.names.push(self::name(cursor, name, faults));
            // The index of an array has a name too.
            read.nameless |= faults.len() > told;
            if !cursor.take_punct(",") {
                // `a b: [T; len]`
                if !cursor.is_name(0) {
                    return read;
                }
                read.apart.get_or_insert_with(|| cursor.span());
            }
        }
    }
}

/// The error for a word that was meant as a modifier and is not one.
fn no_word(cursor: &Cursor) -> Option<Fault> {
    const FOREIGN: [&str; 7] =
        ["symmetric", "registered", "shared", "mut", "const", "double", "static"];
    let word = cursor.peek(0)?.to_string();
    let near = nearest(&word, ["swapped", "window"].into_iter());
    let fault = Fault::new(cursor.span(), format!("memory is not `{word}`"));
    match near {
        Some(near) => Some(fault.help(format!("did you mean `{near}`?"))),
        None if FOREIGN.contains(&&*word) => Some(fault.help(
            "before its name come a role, then `swapped`, then `window`: `inout swapped window u: [T; m];`",
        )),
        None => None,
    }
}

/// The type and the number of elements, as far as they can be parsed.
fn holds(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> (Option<Ident>, Option<Expr>) {
    let form = "and what the memory holds, as in `a: [T; len]`";
    let told = faults.len();
    if !cursor.take_punct(":") {
        faults.push(cursor.expected(&format!("`:` {form}")));
        if !is_holds(cursor) {
            let mut ahead = cursor.clone();
            ahead.skip_to(|ahead| ahead.is_punct(0, ":") || ahead.is_punct(0, ";"));
            if ahead.take_punct(":") {
                *cursor = ahead;
            }
        }
    }
    while cursor.is_punct(0, ":") {
        faults.push(cursor.expected(&format!("`[` {form}")));
        cursor.next();
    }
    let (mut element, mut len) = (None, None);
    let parsed = cursor.group(Delimiter::Bracket, &format!("`[` {form}")).and_then(|mut holds| {
        element = Some(holds.name("the type of the elements")?);
        holds.punct(";", "and the number of elements, as in `[T; len]`")?;
        let number = expr::expr(&mut holds)?;
        holds.end("`]`")?;
        len = Some(number);
        Ok(())
    });
    if let Err(fault) = parsed {
        // One error is enough if the type is missing entirely.
        if faults.len() == told {
            faults.push(fault);
        }
        to_end(cursor);
    }
    (element, len)
}

/// A name, and its array if it has one.
fn name(cursor: &mut Cursor, name: Ident, faults: &mut Vec<Fault>) -> MemoryName {
    cursor.next();
    // `a [T; len]`, where a colon is missing.
    if !cursor.is_group(0, Delimiter::Bracket) || is_holds(cursor) {
        return MemoryName { name, array: None };
    }
    let array = array(cursor, &name).unwrap_or_else(|fault| {
        let area = fault.area;
        faults.push(fault);
        // It is an array, of however many buffers.
        (name.clone(), Expr { kind: ExprKind::Int(1), area, height: 1 })
    });
    MemoryName { name, array: Some(array) }
}

/// Whether the brackets contain a type and a length.
fn is_holds(cursor: &Cursor) -> bool {
    let Some(TokenTree::Group(group)) = cursor.peek(0) else { return false };
    let mut inside = Cursor::of(group);
    inside.skip_to(|inside| inside.is_punct(0, ";"));
    !inside.is_empty()
}

/// `[i in 0..k]`
fn array(cursor: &mut Cursor, name: &Ident) -> Parsed<(Ident, Expr)> {
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
    Ok((index, count))
}

/// `stream net, cmp`, `signal hi, lo`
pub(super) fn names(
    cursor: &mut Cursor,
    what: &str,
    kind: impl FnOnce(Vec<Ident>) -> StatementKind,
    faults: &mut Vec<Fault>,
) -> Parsed<Said> {
    let mut names: Vec<Ident> = Vec::new();
    while cursor.is_word(0, what) && cursor.is_name(1) {
        faults.push(Fault::new(cursor.span(), format!("`{what}` is written twice")));
        cursor.next();
    }
    loop {
        let another = if names.is_empty() { "a" } else { "another" };
        names.push(cursor.name(&format!("the name of {another} {what}"))?);
        if cursor.take_punct(",") {
            continue;
        }
        // `stream net cmp;`
        if !cursor.is_name(0) || !(cursor.is_punct(1, ";") || cursor.is_punct(1, ",")) {
            break;
        }
        faults.push(Fault::new(cursor.span(), "names are separated by `,`"));
        // A name repeated right after itself is declared once.
        if names.last().is_some_and(|last| cursor.is_word(0, &last.to_string())) {
            cursor.next();
            if !cursor.take_punct(",") {
                break;
            }
        }
    }
    Ok((kind(names), StreamClause::default()))
}

pub(super) fn communicator(cursor: &mut Cursor) -> Parsed<Said> {
    let form = "as in `comm node along local;`";
    let name = cursor.name(&format!("a communicator's name, {form}"))?;
    cursor.word("along", &format!("and the axes along which its ranks differ, {form}"))?;
    let mut along = vec![cursor.name("an axis")?];
    while cursor.take_punct(",") {
        along.push(cursor.name("another axis")?);
    }
    Ok((StatementKind::Communicator { name, along }, StreamClause::default()))
}

pub(super) fn named(cursor: &mut Cursor) -> Parsed<Said> {
    let name = cursor.name("a name, as in `let left = (rank - 1) % n;`")?;
    cursor.punct("=", "and what the name stands for")?;
    if listed::is_rows(cursor) {
        let fault = Fault::new(cursor.span(), "rows of numbers are a constant, and no `let`");
        return Err(fault.help(format!("write `const {} = [..];`", text(&name))));
    }
    let value = expr::expr(cursor)?;
    Ok((StatementKind::Let { name, value }, StreamClause::default()))
}
