//! Compute steps: `run name(i, read a, write b, update c)`.
//!
//! The user writes a method for each, so even after an error the name is kept, and as many
//! arguments as can be recognised.

use proc_macro2::{Delimiter, Group, Ident, TokenTree};

use super::assign::SIGNS;
use super::block::{Said, place};
use super::broken::to_end;
use super::cursor::Cursor;
use super::{expr, words};
use crate::area::Area;
use crate::ast::{Argument, ArgumentKind, Equation, Expr, ExprKind, StatementKind, StreamClause};
use crate::fault::{Fault, Parsed};
use crate::nearest::nearest;

const KINDS: [(&str, ArgumentKind); 3] = [
    ("read", ArgumentKind::Read),
    ("write", ArgumentKind::Write),
    ("update", ArgumentKind::Update),
];

/// Words of other languages, and ours for them.
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

pub(super) fn run(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Said> {
    let what = "the name of your computation, as in `run pack(read u, write v);`";
    while cursor.is_word(0, "run") && cursor.is_name(1) {
        faults.push(cursor.expected(what));
        cursor.next();
    }
    let name = cursor.name(what)?;
    Ok(named(cursor, name, faults))
}

/// The part after the name.
pub(super) fn named(cursor: &mut Cursor, name: Ident, faults: &mut Vec<Fault>) -> Said {
    let what = "what the computation gets, as in `(i, read u, write v)`";
    let mut written = cursor.clone();
    if !cursor.is_group(0, Delimiter::Parenthesis) {
        faults.push(cursor.expected(what));
        // `run pack pack(read u)`
        if cursor.is_group(1, Delimiter::Parenthesis) {
            cursor.next();
        }
    }
    let (arguments, known) = match cursor.group(Delimiter::Parenthesis, what) {
        Ok(mut inside) => arguments(&mut inside, faults),
        Err(_) => {
            // `run pack read u, write v;`
            written.cut_at(ends);
            cursor.skip_to(ends);
            (arguments(&mut written, &mut Vec::new()).0, false)
        }
    };
    let computes = equations(cursor, faults);
    let place = place(cursor).unwrap_or_else(|fault| {
        faults.push(fault);
        to_end(cursor);
        StreamClause { unknown: true, ..StreamClause::default() }
    });
    (StatementKind::Run { name, arguments, known, computes }, place)
}

/// Whether this group could be the arguments of a compute step.
pub(super) fn is_run(cursor: &Cursor) -> bool {
    let Some(TokenTree::Group(group)) = cursor.peek(0) else { return false };
    let inside = Cursor::of(group);
    group.delimiter() == Delimiter::Parenthesis && is_kind(&inside)
}

/// Whether what is done with memory comes next.
fn is_kind(cursor: &Cursor) -> bool {
    KINDS.iter().any(|(word, _)| cursor.is_word(0, word))
}

/// Whether arguments without parentheses end here.
fn ends(cursor: &Cursor) -> bool {
    let word = |word: &&str| cursor.is_word(0, word);
    let words = ["after", "computes"];
    cursor.is_punct(0, ";") || words.iter().any(word) || words::STATEMENTS.iter().any(word)
}

/// `computes b += a, c = min(a, b)`, if present. Equations that cannot be parsed are reported and
/// left out.
fn equations(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Vec<Equation> {
    let mut equations = Vec::new();
    if !cursor.take_word("computes") {
        return equations;
    }
    loop {
        match equation(cursor) {
            Ok(equation) => equations.push(equation),
            Err(fault) => {
                faults.push(fault);
                let goes_on = |cursor: &Cursor| PLACES.iter().any(|word| cursor.is_word(0, word));
                cursor.skip_to(|cursor| cursor.is_punct(0, ";") || goes_on(cursor));
                return equations;
            }
        }
        if !cursor.take_punct(",") {
            return equations;
        }
    }
}

/// The words that introduce a statement's place.
const PLACES: [&str; 2] = ["on", "after"];

/// `b += a`
fn equation(cursor: &mut Cursor) -> Parsed<Equation> {
    if cursor.is_punct(0, ";") || PLACES.iter().any(|word| cursor.is_word(0, word)) {
        return Err(cursor.expected("what the step computes, as in `b += a`"));
    }
    let to = expr::memory(cursor)?;
    let update = match SIGNS.iter().find(|(sign, _)| cursor.take_punct(sign)) {
        Some((_, update)) => *update,
        None => {
            let form = "these are `b += a`, `b *= a`, `b = a`, `b = min(a, b)` and `b = max(a, b)`";
            return Err(cursor.expected("`+=`, `*=` or `=`").help(form));
        }
    };
    let value = expr::expr(cursor)?;
    Ok(Equation { to, update, value })
}

/// The arguments, and whether they are complete.
fn arguments(inside: &mut Cursor, faults: &mut Vec<Fault>) -> (Vec<Argument>, bool) {
    let (mut arguments, mut known) = (Vec::new(), true);
    while !inside.is_empty() {
        let told = faults.len();
        if inside.is_punct(0, ",") {
            faults.push(inside.expected("what the computation gets"));
            known = false;
        } else {
            arguments.push(argument(inside, faults));
        }
        if inside.take_punct(",") || inside.is_empty() {
            continue;
        }
        if faults.len() == told {
            faults.push(inside.expected("`,` or `)`"));
        }
        // The rest could not be parsed.
        known = false;
        if let Some(last) = arguments.last_mut() {
            last.known = false;
        }
        inside.skip_to(|cursor| cursor.is_punct(0, ",") || is_kind(cursor));
        inside.take_punct(",");
    }
    (arguments, known)
}

fn argument(inside: &mut Cursor, faults: &mut Vec<Fault>) -> Argument {
    let told = faults.len();
    let kind = kind(inside, faults);
    let from = inside.clone();
    match expr::expr(inside) {
        Ok(value) => {
            // `x read` was reported, and its word follows it.
            if faults.len() > told && is_kind(inside) {
                inside.next();
            }
            Argument { kind, value, known: faults.len() == told }
        }
        Err(fault) => {
            faults.push(fault);
            inside.skip_to(|cursor| cursor.is_punct(0, ","));
            Argument { kind, value: guessed(&from), known: false }
        }
    }
}

/// A guess at the value of an argument that could not be parsed.
fn guessed(from: &Cursor) -> Expr {
    let area = Area::from(from.span());
    let node = |kind| Expr { kind, area, height: 1 };
    let Some(TokenTree::Ident(root)) = from.peek(0) else { return node(ExprKind::Int(1)) };
    let root = node(ExprKind::Name(root.clone()));
    match from.peek(1) {
        Some(TokenTree::Group(group)) if is_index(group) => {
            node(ExprKind::Index(Box::new(root), Box::new(node(ExprKind::Int(0)))))
        }
        _ => root,
    }
}

/// Whether `[..]` contains no range.
fn is_index(group: &Group) -> bool {
    let inside = Cursor::of(group);
    group.delimiter() == Delimiter::Bracket
        && !(0..)
            .map_while(|nth| inside.peek(nth).map(|_| nth))
            .any(|nth| inside.is_punct(nth, ".."))
}

fn kind(inside: &mut Cursor, faults: &mut Vec<Fault>) -> ArgumentKind {
    // A number may have the name of a kind; then no region follows.
    let Some(TokenTree::Ident(second)) = inside.peek(1) else { return ArgumentKind::Number };
    let Some(TokenTree::Ident(first)) = inside.peek(0) else { return ArgumentKind::Number };
    let (first, second) = (first.to_string(), second.to_string());
    let ours = |word: &str| KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
    if let Some(kind) = ours(&first) {
        inside.next();
        // `read read u`
        while is_kind(inside) && inside.is_name(1) {
            faults.push(inside.expected("memory").help(format!("write `{first}` once")));
            inside.next();
        }
        return kind;
    }
    // `(i write u)`, `(i i, write u)`: the first is a number, and what follows it is reported.
    if first == second || ours(&second).is_some() && inside.is_name(2) {
        return ArgumentKind::Number;
    }
    let foreign = FOREIGN.iter().find(|(foreign, _)| *foreign == first).map(|(_, ours)| *ours);
    let near = foreign.or_else(|| nearest(&first, KINDS.iter().map(|(word, _)| *word)));
    let fault: Fault = inside.expected("`read`, `write` or `update`");
    if let Some(near) = near {
        faults.push(fault.help(format!("did you mean `{near} {second}`?")));
        inside.next();
        return ours(near).unwrap_or(ArgumentKind::Read);
    }
    let after = ours(&second);
    let help = after.map(|_| format!("write `{second} {first}`"));
    faults.push(fault.maybe_help(help));
    if after.is_none() {
        inside.next();
    }
    after.unwrap_or(ArgumentKind::Read)
}
