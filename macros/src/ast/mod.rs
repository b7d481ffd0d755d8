//! A plan as it is written: names are not looked up yet.

mod expr;
mod header;
mod show;
mod statement;

pub(crate) use expr::{Expr, ExprKind, Operator};
pub(crate) use header::{Check, Param, ParamKind, Plan, Settings, TypeParam};
pub(crate) use statement::{
    Argument, ArgumentKind, Awaited, Block, Collective, Equation, Lost, Memory, MemoryName, Place,
    Statement, StatementKind,
};

use proc_macro2::Ident;

/// A name without what makes a keyword of Rust a name.
pub(crate) fn text(name: &Ident) -> String {
    let mut text = name.to_string();
    if text.starts_with("r#") {
        text.drain(..2);
    }
    text
}
