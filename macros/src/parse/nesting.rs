//! Checks the nesting of groups before parsing, which recurses into them.

use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use typed_nccl_plan::ir::MOST_NESTING;

use crate::fault::Fault;

/// Nested statements, and in the innermost one a nested number.
const MOST: usize = 2 * MOST_NESTING + 2;

/// Tokens of one group.
struct Inside {
    tokens: IntoIter,
    level: usize,
    /// The number of `else` before this: each case is nested in the one before it.
    chain: usize,
    /// Whether a block has just ended, which an `else` may follow.
    after_block: bool,
}

impl Inside {
    fn new(tokens: TokenStream, level: usize) -> Self {
        Self { tokens: tokens.into_iter(), level, chain: 0, after_block: false }
    }
}

/// The first group that is nested too deeply. Without recursion.
pub(super) fn too_deep(tokens: &TokenStream) -> Option<Fault> {
    let mut open = vec![Inside::new(tokens.clone(), 0)];
    while let Some(inside) = open.last_mut() {
        let Some(token) = inside.tokens.next() else {
            open.pop();
            continue;
        };
        let goes_on = matches!(&token, TokenTree::Ident(word) if word == "else");
        match (goes_on, inside.after_block) {
            (true, _) => inside.chain += 1,
            (false, true) => inside.chain = 0,
            (false, false) => {}
        }
        inside.after_block = false;
        if let TokenTree::Group(group) = token {
            inside.after_block = group.delimiter() == Delimiter::Brace;
            let level = inside.level + inside.chain + 1;
            if level > MOST {
                let title = format!("this stands in more than {MOST} blocks and parentheses");
                let help = "give a part of it a name of its own with `let`, or nest less deep";
                return Some(Fault::new(group.span_open(), title).help(help));
            }
            open.push(Inside::new(group.stream(), level));
        }
    }
    None
}
