//! Name, type parameters, ranks and parameters, promises.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use typed_nccl_plan::ir::Values;

use super::{attr, block, cursor::Cursor, expr};
use crate::ast::{Param, ParamKind, Plan, TypeParam, text};
use crate::fault::{Fault, Parsed};
use crate::nearest::nearest;

const BOUNDS: [&str; 3] = ["Element", "Numeric", "Float"];

pub(super) fn plan(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Plan> {
    let attributes = attr::of_plan(cursor, faults);
    let visibility = visibility(cursor);
    let name = cursor.name("the plan's name, as in `pub ring(n: Ranks) { .. }`")?;
    if text(&name) == "fn"
        || text(&name) == "plan" && matches!(cursor.peek(0), Some(TokenTree::Ident(_)))
    {
        return Err(Fault::new(
            name.span(),
            format!("a plan begins with its name, not with `{name}`"),
        )
        .help("write `pub ring(n: Ranks) { .. }`"));
    }
    let types = types(cursor, faults)?;
    let mut inside = cursor.group(
        Delimiter::Parenthesis,
        "`(` and the plan's ranks, as in `(n: Ranks, len: usize)`",
    )?;
    let params = params(&mut inside, faults);
    let promises = promises(cursor, faults)?;
    let mut body = cursor.group(Delimiter::Brace, "`{` and the plan's statements")?;
    let body = block::block(&mut body, faults);
    if !cursor.is_empty() {
        faults.push(
            cursor.expected("nothing after the plan").help("write one `plan!` for each plan"),
        );
    }
    let attr::Attributes { others: attributes, conditions, settings } = attributes;
    Ok(Plan { attributes, conditions, settings, visibility, name, types, params, promises, body })
}

fn visibility(cursor: &mut Cursor) -> TokenStream {
    let mut tokens = TokenStream::new();
    if cursor.is_word(0, "pub") {
        tokens.extend(cursor.next());
        if cursor.is_group(0, Delimiter::Parenthesis) {
            tokens.extend(cursor.next());
        }
    }
    tokens
}

fn types(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Vec<TypeParam>> {
    let mut types = Vec::new();
    if !cursor.take_punct("<") {
        return Ok(types);
    }
    while !cursor.take_punct(">") {
        let name = cursor.name("a type parameter, as in `T: Float`")?;
        let missing = || {
            Fault::new(
                name.span(),
                format!("the type parameter `{name}` says nothing of its elements"),
            )
            .help(format!("write `{name}: Element`, `{name}: Numeric` or `{name}: Float`"))
        };
        if !cursor.take_punct(":") {
            return Err(missing());
        }
        let mut bound = cursor.name("`Element`, `Numeric` or `Float`")?;
        while cursor.take_punct("::") {
            bound = cursor.name("`Element`, `Numeric` or `Float`")?;
        }
        if cursor.is_punct(0, "+") {
            return Err(Fault::new(cursor.span(), format!("`{name}` has one bound")).help(
                "write `Float`, which is also `Numeric`, or `Numeric`, which is also `Element`",
            ));
        }
        if !BOUNDS.iter().any(|known| bound == known) {
            faults.push(
                Fault::new(bound.span(), format!("`{bound}` is no bound for the elements of a plan")).help(
                    "write `Element` to move them, `Numeric` to reduce them, or `Float` to average them",
                ),
            );
        }
        types.push(TypeParam { name, bound });
        if !cursor.take_punct(",") && !cursor.is_punct(0, ">") {
            return Err(cursor.expected("`,` or `>`"));
        }
    }
    Ok(types)
}

fn params(inside: &mut Cursor, faults: &mut Vec<Fault>) -> Vec<Param> {
    let mut params = Vec::new();
    while !inside.is_empty() {
        let before = faults.len();
        match param(inside, faults) {
            Ok(param) => params.push(param),
            Err(fault) => faults.push(fault),
        }
        if inside.is_empty() || inside.take_punct(",") {
            continue;
        }
        // What is left of a parameter with a mistake is not told of.
        if faults.len() == before {
            faults.push(inside.expected("`,` between parameters"));
        }
        while !inside.is_empty() && !inside.take_punct(",") {
            inside.next();
        }
    }
    params
}

/// One parameter. Whatever is wrong behind its name, it is one: its name is used below.
fn param(inside: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Param> {
    let docs = attr::docs(inside)?;
    let name = inside.name("a parameter, as in `len: usize`")?;
    let kind = kind(inside).unwrap_or_else(|fault| {
        let written = inside.peek(0).map(ToString::to_string).unwrap_or_default();
        let ranks = nearest(&written, ["Ranks"].into_iter());
        faults.push(match ranks {
            Some(_) => fault.help("did you mean `Ranks`?"),
            None => fault,
        });
        if ranks.is_some() { ParamKind::Ranks } else { ParamKind::Number }
    });
    let values = inside.take_word("in").then(|| values(inside)).transpose();
    let values = values.unwrap_or_else(|fault| {
        faults.push(fault);
        None
    });
    Ok(Param { docs, name, kind, values })
}

fn kind(inside: &mut Cursor) -> Parsed<ParamKind> {
    inside.punct(":", "and what the parameter is: `Ranks`, `usize` or `[usize; k]`")?;
    if inside.take_word("Ranks") {
        return Ok(ParamKind::Ranks);
    }
    if inside.take_word("usize") {
        return Ok(ParamKind::Number);
    }
    if !inside.is_group(0, Delimiter::Bracket) {
        return Err(inside.expected("what the parameter is: `Ranks`, `usize` or `[usize; k]`"));
    }
    let form = "`[usize; k]`, a list of `k` numbers";
    let mut list = inside.group(Delimiter::Bracket, form)?;
    if !list.take_word("usize") || !list.take_punct(";") {
        return Err(list.expected(form));
    }
    let count = expr::expr(&mut list)?;
    list.end("`]`")?;
    Ok(ParamKind::List(count))
}

fn values(inside: &mut Cursor) -> Parsed<Values> {
    let form = "the numbers that it may be, as in `[2, 4, 8]`, `2..=16` or `3..`";
    if inside.is_group(0, Delimiter::Bracket) {
        let (mut list, mut values) = (inside.group(Delimiter::Bracket, form)?, Vec::new());
        while !list.is_empty() {
            values.push(list.int("a number")?);
            if !list.take_punct(",") {
                list.end("`,` or `]`")?;
            }
        }
        return Ok(Values::OneOf(values));
    }
    let first = inside.int(form)?;
    let (last, less) = if inside.take_punct("..=") {
        (inside.int("the last number of the range")?, 0)
    } else if inside.take_punct("..") {
        match inside.peek(0) {
            Some(TokenTree::Literal(_)) => (inside.int("the end of the range")?, 1),
            _ => return Ok(Values::AtLeast(first)),
        }
    } else {
        return Ok(Values::Exactly(first));
    };
    Ok(Values::Range(first, last.saturating_sub(less)))
}

fn promises(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Vec<crate::ast::Expr>> {
    let mut promises = Vec::new();
    if !cursor.take_word("where") {
        return Ok(promises);
    }
    while !cursor.is_empty() && !cursor.is_group(0, Delimiter::Brace) {
        match expr::expr(cursor) {
            Ok(promise) => promises.push(promise),
            Err(fault) => faults.push(fault),
        }
        if cursor.take_punct(",") || cursor.is_group(0, Delimiter::Brace) {
            continue;
        }
        faults.push(cursor.expected("`,` or `{` after a condition"));
        while !cursor.is_empty() && !cursor.is_group(0, Delimiter::Brace) {
            cursor.next();
        }
    }
    Ok(promises)
}
