//! Collectives: `all_reduce(a -> b, sum)`, `broadcast(x, root = 0)`.

use proc_macro2::{Delimiter, Ident};
use typed_nccl_plan::ir::CollectiveName;

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
    let Some(which) = CollectiveName::of(&text) else {
        let fault = Fault::new(name.span(), format!("`{text}` is not a collective"));
        return Err(match crate::nearest::nearest(&text, words::COLLECTIVES.into_iter()) {
            Some(meant) => fault.help(format!("did you mean `{meant}`?")),
            None => fault.help(format!("these are: `{}`", words::COLLECTIVES.join("`, `"))),
        });
    };
    let first = through.as_ref().map_or_else(|| name.span(), Ident::span);
    let example = which.spec().example;
    let begins = format!("`(` and the memory of `{text}`, as in `{example}`");
    let mut inside = cursor.group(Delimiter::Parenthesis, &begins)?;
    let area = cursor.since(first);
    let send = expr::expr(&mut inside)?;
    let recv = if inside.take_punct("->") { Some(expr::expr(&mut inside)?) } else { None };
    let (mut others, mut root) = (Vec::new(), None);
    if inside.is_punct(0, "=>") {
        return Err(inside.expected("`->`").help("write `->`"));
    }
    let then = match (which.reduces(), which.has_root()) {
        (true, false) => "and a reduction",
        (false, true) => "and a root",
        (true, true) => "and a reduction or a root",
        (false, false) => "or `)`",
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
            if matches!(inside.peek(0), Some(proc_macro2::TokenTree::Punct(_))) {
                return Err(inside.expected("a reduction (`sum`) or a root (`root = 0`)"));
            }
            let other = expr::expr(&mut inside)?;
            if inside.is_punct(0, "->") {
                return Err(Fault::new(other.area, "the memory comes first")
                    .help(format!("as in `{example}`")));
            }
            others.push(other);
        }
    }
    Ok(Collective { through, name, which, send, recv, others, root, area })
}
