//! A plan as written, before names are looked up.

mod expr;
mod header;
mod show;
mod statement;

pub(crate) use expr::{Expr, ExprKind, Operator};
pub(crate) use header::{Check, Param, ParamKind, Plan, Promised, Settings, TypeParam};
pub(crate) use statement::{
    Argument, ArgumentKind, Assigned, Awaited, Block, Collective, Counted, Equation, Listed, Lost,
    Memory, MemoryName, Row, Statement, StatementKind, StreamClause, Term,
};

use proc_macro2::Ident;

/// A name without the `r#` of a raw identifier.
pub(crate) fn text(name: &Ident) -> String {
    let mut text = name.to_string();
    if text.starts_with("r#") {
        text.drain(..2);
    }
    text
}
