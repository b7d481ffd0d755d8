//! Parses tokens into an AST. An error in one statement does not hide errors in others.

mod assign;
pub(crate) mod attr;
mod block;
mod broken;
mod claim;
mod collective;
pub(crate) mod cursor;
mod declare;
mod expr;
pub(crate) mod header;
mod listed;
mod message;
mod nesting;
mod run;
mod unfinished;
pub(crate) mod words;

use proc_macro2::{Span, TokenStream};

use crate::ast::Plan;
use crate::fault::Fault;
use cursor::Cursor;

/// The parsed plan, and the errors.
pub(crate) fn plan(tokens: TokenStream, faults: &mut Vec<Fault>) -> Option<Plan> {
    if let Some(fault) = nesting::too_deep(&tokens) {
        faults.push(fault);
        return None;
    }
    let here = Span::call_site();
    let mut cursor = Cursor::new(tokens, here, here);
    match header::plan(&mut cursor, faults) {
        Ok(plan) => Some(plan),
        Err(fault) => {
            faults.push(fault);
            None
        }
    }
}
