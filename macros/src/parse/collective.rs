//! Collectives: `all_reduce(a -> b, sum)`, `broadcast(x, root = 0)`.

use proc_macro2::{Delimiter, Ident};

use super::cursor::Cursor;
use super::{expr, words};
use crate::ast::Collective;
use crate::fault::{Fault, Parsed};

pub(super) fn collective(
    cursor: &mut Cursor,
    through: Option<Ident>,
    name: Ident,
) -> Parsed<Collective> {
    let text = name.to_string();
    if !words::COLLECTIVES.contains(&&*text) {
        let fault = Fault::new(name.span(), format!("`{text}` is no collective"));
        return Err(match crate::nearest::nearest(&text, words::COLLECTIVES.into_iter()) {
            Some(meant) => fault.help(format!("did you mean `{meant}`?")),
            None => fault.help(format!("these are: `{}`", words::COLLECTIVES.join("`, `"))),
        });
    }
    let first = through.as_ref().map_or_else(|| name.span(), Ident::span);
    let mut inside =
        cursor.group(Delimiter::Parenthesis, &format!("`(` and the memory of `{text}`"))?;
    let area = cursor.since(first);
    let send = expr::expr(&mut inside)?;
    let recv = if inside.take_punct("->") { Some(expr::expr(&mut inside)?) } else { None };
    let (mut reduction, mut root) = (None, None);
    let example = words::example(&text);
    if inside.is_punct(0, "=>") {
        return Err(inside.expected("`->`").help("write `->`"));
    }
    let then = match &*text {
        "all_reduce" | "reduce_scatter" => "and a reduction",
        "broadcast" | "gather" | "scatter" => "and a root",
        "reduce" => "and a reduction or a root",
        _ => "or `)`",
    };
    while !inside.is_empty() {
        inside.punct(",", &format!("{then}, as in `{example}`"))?;
        if inside.is_empty() {
            break;
        }
        let said = inside.span();
        if inside.is_word(0, "root") && inside.is_punct(1, "=") {
            inside.next();
            inside.next();
            if root.replace(expr::expr(&mut inside)?).is_some() {
                return Err(Fault::new(said, "a collective has one root"));
            }
        } else {
            let by = inside.name("a reduction (`sum`) or a root (`root = 0`)")?;
            if inside.is_punct(0, "->") {
                return Err(Fault::new(by.span(), "the memory stands first")
                    .help(format!("as in `{example}`")));
            }
            if reduction.replace(by).is_some() {
                return Err(Fault::new(said, "a collective has one reduction"));
            }
        }
    }
    Ok(Collective { through, name, send, recv, reduction, root, area })
}
