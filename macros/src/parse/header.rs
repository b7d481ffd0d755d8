//! Name, type parameters, ranks and parameters, promises.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use typed_nccl_plan::ir::Values;

use super::cursor::Cursor;
use super::listed::{self, Turns};
use super::{attr, block, broken, expr};
use crate::ast::{Expr, ExprKind, Lost, Param, ParamKind, Plan, Promised, TypeParam, text};
use crate::fault::{Fault, Parsed};
use crate::kernel::words;
use crate::nearest::nearest;

/// The plan, if it has a name and a body.
pub(super) fn plan(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Plan> {
    let attributes = attr::of_plan(cursor, faults);
    let what = "the plan's name, as in `pub ring(n: Ranks) { .. }`";
    if !cursor.is_name(0) {
        faults.push(cursor.expected(what));
        cursor.skip_to(|cursor| cursor.is_name(0));
        // An empty plan has one error only.
        if cursor.is_empty() {
            return faults.pop().map_or_else(|| Err(cursor.expected(what)), Err);
        }
    }
    let visibility = visibility(cursor);
    while !visibility.is_empty() && cursor.is_word(0, "pub") {
        faults.push(cursor.expected("the plan's name"));
        cursor.next();
    }
    let mut name = cursor.name(what)?;
    if text(&name) == "fn" || text(&name) == "plan" && cursor.is_name(0) {
        let title = format!("a plan begins with its name, not with `{name}`");
        faults.push(Fault::new(name.span(), title).help("write `pub ring(n: Ranks) { .. }`"));
        name = cursor.name(what)?;
    }
    let mut lost = Lost::default();
    let types = types(cursor, &mut lost, faults);
    let what = "`(` and the plan's ranks, as in `(n: Ranks, len: usize)`";
    let mut params = Vec::new();
    if !cursor.is_group(0, Delimiter::Parenthesis) {
        faults.push(cursor.expected(what));
        lost.nameless = true;
        cursor.skip_to(|cursor| {
            cursor.is_group(0, Delimiter::Parenthesis) || cursor.is_group(0, Delimiter::Brace)
        });
    }
    // A missing name is reported.
    if let Ok(mut inside) = cursor.group(Delimiter::Parenthesis, what) {
        params = self::params(&mut inside, &mut lost, faults);
    }
    let promises = promises(cursor, faults);
    let mut body = cursor.group(Delimiter::Brace, "`{` and the plan's statements")?;
    let body = block::block(&mut body, faults);
    if !cursor.is_empty() {
        faults.push(
            cursor.expected("nothing after the plan").help("write one `plan!` for each plan"),
        );
    }
    let attr::Attributes { others: attributes, conditions, settings } = attributes;
    Ok(Plan {
        attributes,
        conditions,
        settings,
        visibility,
        name,
        types,
        params,
        lost,
        promises,
        body,
    })
}

/// `pub`, `pub(crate)` or nothing.
pub(crate) fn visibility(cursor: &mut Cursor) -> TokenStream {
    let mut tokens = TokenStream::new();
    if cursor.is_word(0, "pub") {
        tokens.extend(cursor.next());
        if cursor.is_group(0, Delimiter::Parenthesis) {
            tokens.extend(cursor.next());
        }
    }
    tokens
}

/// `<T: Float, U: Element>`
fn types(cursor: &mut Cursor, lost: &mut Lost, faults: &mut Vec<Fault>) -> Vec<TypeParam> {
    let mut types = Vec::new();
    if !cursor.take_punct("<") {
        // `ring T: Float>(n: Ranks)`
        if !cursor.is_name(0) || !cursor.is_punct(1, ":") {
            return types;
        }
        faults.push(cursor.expected("`<`"));
    }
    while cursor.is_punct(0, "<") {
        faults.push(cursor.expected("a type parameter, as in `T: Float`"));
        cursor.next();
    }
    let ends =
        |cursor: &Cursor| cursor.is_punct(0, ">") || cursor.is_group(0, Delimiter::Parenthesis);
    while !cursor.is_empty() && !ends(cursor) {
        let told = faults.len();
        match type_param(cursor, faults) {
            Ok(param) => types.push(param),
            Err(fault) => {
                faults.push(fault);
                lost.nameless = true;
            }
        }
        if cursor.take_punct(",") || ends(cursor) {
            continue;
        }
        if faults.len() == told {
            faults.push(cursor.expected("`,` or `>`"));
        }
        cursor.skip_to(|cursor| cursor.is_punct(0, ",") || ends(cursor));
        cursor.take_punct(",");
    }
    if !cursor.take_punct(">") && !types.is_empty() {
        faults.push(cursor.expected("`,` or `>`"));
    }
    while cursor.is_punct(0, ">") {
        faults.push(cursor.expected("`(` and the plan's ranks, as in `(n: Ranks, len: usize)`"));
        cursor.next();
    }
    types
}

/// One type parameter. Even with errors after its name it counts as one, since the name is used
/// below.
fn type_param(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<TypeParam> {
    let name = cursor.name("a type parameter, as in `T: Float`")?;
    let bound = bound(cursor, &name).unwrap_or_else(|fault| {
        faults.push(fault);
        None
    });
    Ok(TypeParam { name, bound })
}

/// The first and the last word of the path after a type parameter's name.
pub(crate) fn bound_path(cursor: &mut Cursor, name: &Ident) -> Parsed<(Ident, Ident)> {
    let what = "`Element`, `Numeric` or `Float`";
    if !cursor.take_punct(":") {
        let title = format!("the type parameter `{name}` says nothing of its elements");
        let help = format!("write `{name}: Element`, `{name}: Numeric` or `{name}: Float`");
        return Err(Fault::new(name.span(), title).help(help));
    }
    let first = cursor.name(what)?;
    let mut last = first.clone();
    while cursor.take_punct("::") {
        last = cursor.name(what)?;
    }
    Ok((first, last))
}

fn bound(cursor: &mut Cursor, name: &Ident) -> Parsed<Option<Ident>> {
    let (_, bound) = bound_path(cursor, name)?;
    if cursor.is_punct(0, "+") {
        return Err(Fault::new(cursor.span(), format!("`{name}` has one bound")).help(
            "write `Float`, which is also `Numeric`, or `Numeric`, which is also `Element`",
        ));
    }
    if !words::BOUNDS.iter().any(|known| bound == known) {
        let title = format!("`{bound}` is not a bound for a plan's elements");
        return Err(Fault::new(bound.span(), title).help(
            "write `Element` to move them, `Numeric` to reduce them, or `Float` to average them",
        ));
    }
    Ok(Some(bound))
}

fn params(inside: &mut Cursor, lost: &mut Lost, faults: &mut Vec<Fault>) -> Vec<Param> {
    let mut params = Vec::new();
    while !inside.is_empty() {
        let (told, from) = (faults.len(), inside.clone());
        match param(inside, faults) {
            Ok(param) => params.push(param),
            Err(fault) => {
                faults.push(fault);
                lost.nameless = true;
            }
        }
        if inside.is_empty() || inside.take_punct(",") {
            continue;
        }
        // The rest of a parameter with an error is not reported.
        if faults.len() == told {
            faults.push(inside.expected("`,` between parameters"));
            // `n: Ranks len: usize`
            if inside.is_name(0) && inside.is_punct(1, ":") {
                continue;
            }
        }
        inside.skip_to(|inside| inside.is_punct(0, ","));
        inside.take_punct(",");
        lost.names.append(&mut broken::names(&from, inside));
    }
    params
}

/// One parameter. Even with errors after its name it counts as one, since the name is used below.
fn param(inside: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Param> {
    let docs = attr::docs(inside, faults);
    let constant = inside.is_word(0, "const").then(|| inside.span());
    inside.take_word("const");
    let runs = (inside.is_word(0, "run") && inside.is_name(1)).then(|| inside.span());
    if runs.is_some() {
        inside.next();
    }
    let name = inside.name("a parameter, as in `len: usize`")?;
    let from = inside.clone();
    let kind = kind(inside).unwrap_or_else(|fault| {
        // `n n: Ranks`, `n Ranks`, `n: : Ranks`
        let mut ahead = from;
        ahead.skip_to(|ahead| !ahead.is_punct(0, ":") && !ahead.is_word(0, &name.to_string()));
        let written = ahead.peek(0).map(ToString::to_string).unwrap_or_default();
        let slip = nearest(&written, ["Ranks"].into_iter()).filter(|_| written != "Ranks");
        let fault = fault.maybe_help(slip.map(|_| "did you mean `Ranks`?".to_owned()));
        let area = fault.area;
        faults.push(fault);
        let list = ahead.is_group(0, Delimiter::Bracket);
        match (slip, kind_itself(&mut ahead)) {
            (Some(_), _) => ParamKind::Ranks,
            (None, Ok(kind)) => {
                *inside = ahead;
                kind
            }
            // It is a list, of however many numbers.
            (None, Err(_)) if list => {
                ParamKind::List(Expr { kind: ExprKind::Int(1), area, height: 1 })
            }
            (None, Err(_)) => ParamKind::Unknown,
        }
    });
    let values = inside.take_word("in").then(|| values(inside)).transpose();
    let values = values.unwrap_or_else(|fault| {
        faults.push(fault);
        None
    });
    let kind = match (constant, kind) {
        (Some(_), ParamKind::Number) => ParamKind::Constant,
        (Some(span), ParamKind::Ranks | ParamKind::List(_)) => {
            let fault = Fault::new(span, "a constant of the program is one number");
            faults.push(fault.help(format!("write `const {name}: usize`")));
            ParamKind::Unknown
        }
        (_, kind) => kind,
    };
    let kind = match (runs, kind) {
        (Some(_), ParamKind::List(count)) => ParamKind::Counts(count),
        (Some(span), ParamKind::Number | ParamKind::Constant | ParamKind::Ranks) => {
            let fault = Fault::new(span, "a run passes lists of numbers");
            faults.push(fault.help(format!("write `run {name}: [usize; k]`")));
            ParamKind::Unknown
        }
        (_, kind) => kind,
    };
    Ok(Param { docs, name, kind, values })
}

fn kind(inside: &mut Cursor) -> Parsed<ParamKind> {
    inside.punct(":", "and what the parameter is: `Ranks`, `usize` or `[usize; k]`")?;
    kind_itself(inside)
}

fn kind_itself(inside: &mut Cursor) -> Parsed<ParamKind> {
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

pub(super) fn values(inside: &mut Cursor) -> Parsed<Values> {
    let form = "the numbers that it may be, as in `[2, 4, 8]`, `2..=16`, `3..` or `powers of 2`";
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
    if expr::is_powers(inside) {
        let of = expr::powers(inside)?;
        let ExprKind::Int(base @ 2..) = of.kind else {
            return Err(Fault::new(of.area, "these are powers of a number of 2 or more")
                .help("write it in digits: `powers of 2`"));
        };
        return Ok(Values::Powers(base));
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

fn promises(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Vec<Promised> {
    let mut promises = Vec::new();
    let ends = |cursor: &Cursor| cursor.is_punct(0, ",") || cursor.is_group(0, Delimiter::Brace);
    if !cursor.take_word("where") {
        if !cursor.is_empty() && !cursor.is_group(0, Delimiter::Brace) {
            let mut ahead = cursor.clone();
            ahead.skip_to(|ahead| ahead.is_group(0, Delimiter::Brace));
            // A missing body is reported below.
            if !ahead.is_empty() {
                faults.push(cursor.expected("`where` or `{` and the plan's statements"));
                *cursor = ahead;
            }
        }
        return promises;
    }
    while !cursor.is_empty() && !cursor.is_group(0, Delimiter::Brace) {
        let is_loop = cursor.is_word(0, "for");
        match promised(cursor) {
            Ok(promise) if cursor.is_empty() || ends(cursor) => promises.push(promise),
            Ok(_) => faults.push(cursor.expected("`,` or `{` after a condition")),
            Err(fault) => faults.push(fault),
        }
        cursor.skip_to(ends);
        // The block of a loop with an error, unless it is the plan's.
        let is_block = is_loop && cursor.is_group(0, Delimiter::Brace);
        if is_block && (cursor.is_punct(1, ",") || cursor.is_group(1, Delimiter::Brace)) {
            cursor.next();
        }
        cursor.take_punct(",");
    }
    promises
}

/// A condition, or a loop around conditions.
fn promised(cursor: &mut Cursor) -> Parsed<Promised> {
    if !cursor.take_word("for") {
        return expr::expr(cursor).map(Promised::Holds);
    }
    let form = "as in `for i in 0..n { counts[i] <= capacity }`";
    let turns = listed::turns(cursor, form, block::counts)?;
    let body = all_promised(cursor, form)?;
    Ok(match turns {
        Turns::Rows(names, list) => Promised::Each { names, list, body },
        Turns::Counted(counted) => Promised::For { counted, body },
    })
}

/// The conditions of a loop.
fn all_promised(cursor: &mut Cursor, form: &str) -> Parsed<Vec<Promised>> {
    let mut inside = cursor.group(Delimiter::Brace, &format!("`{{` and a condition, {form}"))?;
    let mut all = vec![promised(&mut inside)?];
    while inside.take_punct(",") && !inside.is_empty() {
        all.push(promised(&mut inside)?);
    }
    inside.end("`,` or `}` after a condition")?;
    Ok(all)
}
