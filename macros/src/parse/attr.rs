//! Attributes: ours are parsed, others are passed on.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use typed_nccl_plan::ir::{Values, Version};
use typed_nccl_plan::releases::ONE_SIGNAL;

use super::cursor::Cursor;
use super::header::values;
use crate::ast::{Check, Settings};
use crate::fault::{Fault, Parsed};
use crate::nearest::nearest;

const OURS: [&str; 6] = ["capture", "once", "kernels", "target", "order", "check"];

/// The attributes of a plan.
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) others: TokenStream,
    pub(super) conditions: TokenStream,
    pub(super) settings: Settings,
}

pub(super) fn of_plan(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Attributes {
    let mut found = Attributes::default();
    while let Some((name, mut inside, tokens)) = next(cursor) {
        let name = name.as_ref();
        let is = |word| name.is_some_and(|name| name == word);
        let parsed = if is("capture") {
            found.settings.captured = true;
            inside.end("nothing after `capture`")
        } else if is("once") {
            found.settings.once = true;
            inside.end("nothing after `once`")
        } else if is("kernels") {
            found.settings.without_kernels = true;
            only(&mut inside, "off", "`#[kernels(off)]`, which leaves everything to NCCL")
        } else if is("target") {
            version(&mut inside).map(|version| found.settings.target = Some(version))
        } else if is("order") {
            found.settings.implicit_order = true;
            let form =
                "`#[order(implicit)]`, which leaves the order of several communicators to NCCL";
            only(&mut inside, "implicit", form)
        } else if is("check") {
            check(&mut inside).map(|check| found.settings.checks.push(check))
        } else if let Some(meant) = name.and_then(slip) {
            let area = inside.last();
            Err(Fault::new(area, format!("a plan has no attribute `{meant}`", meant = meant.0))
                .help(format!("did you mean `#[{}]`?", meant.1)))
        } else {
            if is("cfg") {
                found.conditions.extend(tokens.clone());
            }
            found.others.extend(tokens);
            Ok(())
        };
        faults.extend(parsed.err());
    }
    found
}

/// Documentation of a part of a plan.
pub(super) fn docs(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> TokenStream {
    let mut docs = TokenStream::new();
    while let Some((name, inside, tokens)) = next(cursor) {
        if name.is_some_and(|name| name == "doc") {
            docs.extend(tokens);
            continue;
        }
        let fault = Fault::new(inside.last(), "attributes go before the plan only");
        faults.push(fault.help("remove it; documentation may be here"));
    }
    docs
}

/// The next attribute: its name, the rest of its contents, and all of its tokens.
pub(crate) fn next(cursor: &mut Cursor) -> Option<(Option<Ident>, Cursor, TokenStream)> {
    if !cursor.is_punct(0, "#") || !cursor.is_group(1, Delimiter::Bracket) {
        return None;
    }
    let tokens: Vec<TokenTree> = [cursor.next()?, cursor.next()?].into();
    let TokenTree::Group(group) = &tokens[1] else { return None };
    let mut inside = Cursor::of(group);
    let name = match inside.peek(0) {
        Some(TokenTree::Ident(_)) => inside.name("a name").ok(),
        _ => None,
    };
    Some((name, inside, tokens.into_iter().collect()))
}

fn slip(name: &Ident) -> Option<(String, &'static str)> {
    let name = name.to_string();
    let ours = match &*name {
        "captured" => Some("capture"),
        _ => nearest(&name, OURS.into_iter()),
    };
    ours.map(|ours| (name, ours))
}

fn version(inside: &mut Cursor) -> Parsed<Version> {
    let form = &*format!("three numbers, as in `{}`", ONE_SIGNAL.target());
    let mut numbers = inside.group(Delimiter::Parenthesis, form)?;
    let mut parts = [0; 3];
    for (nth, part) in parts.iter_mut().enumerate() {
        if nth > 0 {
            numbers.punct(",", "between the numbers of a version")?;
        }
        let span = numbers.span();
        *part = u16::try_from(numbers.int(form)?)
            .map_err(|_| Fault::new(span, format!("expected {form}")))?;
    }
    numbers.end("three numbers")?;
    Ok(Version(parts[0], parts[1], parts[2]))
}

/// Sizes to check: `(n in [67, 1000], len in [1])`.
fn check(inside: &mut Cursor) -> Parsed<Check> {
    let form = "sizes to check, as in `#[check(n in [67, 1000])]`";
    let area = inside.last().into();
    let mut inside = inside.group(Delimiter::Parenthesis, form)?;
    let mut sizes = Vec::new();
    loop {
        let name = inside.name(form)?;
        if !inside.take_word("in") {
            return Err(inside.expected(&format!("`in`: the attribute names {form}")));
        }
        let span = inside.span();
        let values = match values(&mut inside)? {
            Values::Exactly(only) => vec![only],
            Values::OneOf(list) => list,
            Values::Range(first, last) if last.saturating_sub(first) < 1024 => {
                (first..=last).collect()
            }
            Values::Range(..) | Values::AtLeast(_) | Values::Powers(_) => {
                return Err(Fault::new(span, "these are too many sizes to check")
                    .help("list some, as in `[67, 1000]`"));
            }
        };
        sizes.push((name, values));
        if !inside.take_punct(",") || inside.is_empty() {
            break;
        }
    }
    inside.end("`,` or the end")?;
    Ok(Check { area, sizes })
}

/// The one word that an attribute takes.
fn only(inside: &mut Cursor, word: &str, form: &str) -> Parsed<()> {
    let mut which = inside.group(Delimiter::Parenthesis, form)?;
    if which.take_word(word) && which.is_empty() {
        Ok(())
    } else {
        Err(which.expected(&format!("`{word}`: the attribute is {form}")))
    }
}
