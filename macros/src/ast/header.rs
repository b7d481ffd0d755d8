//! What stands before a plan's body.

use proc_macro2::{Ident, TokenStream};
use typed_nccl_plan::ir;

use super::{Block, Expr, Lost};
use crate::area::Area;

#[derive(Debug)]
pub(crate) struct Plan {
    /// Attributes that are not the plan's, its documentation among them.
    pub(crate) attributes: TokenStream,
    /// Those of them that say when there is a plan at all.
    pub(crate) conditions: TokenStream,
    pub(crate) settings: Settings,
    pub(crate) visibility: TokenStream,
    pub(crate) name: Ident,
    pub(crate) types: Vec<TypeParam>,
    pub(crate) params: Vec<Param>,
    /// Parameters that were not understood.
    pub(crate) lost: Lost,
    pub(crate) promises: Vec<Expr>,
    pub(crate) body: Block,
}

/// What the attributes of a plan say.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) captured: bool,
    pub(crate) once: bool,
    pub(crate) without_kernels: bool,
    pub(crate) target: Option<ir::Version>,
    pub(crate) implicit_order: bool,
    pub(crate) checks: Vec<Check>,
}

/// Sizes that are to be checked.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) area: Area,
    pub(crate) sizes: Vec<(Ident, Vec<i64>)>,
}

#[derive(Debug)]
pub(crate) struct TypeParam {
    pub(crate) name: Ident,
    /// `Element`, `Numeric` or `Float`; nothing where what stands there is none of them, which was told.
    pub(crate) bound: Option<Ident>,
}

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) docs: TokenStream,
    pub(crate) name: Ident,
    pub(crate) kind: ParamKind,
    pub(crate) values: Option<ir::Values>,
}

#[derive(Debug)]
pub(crate) enum ParamKind {
    /// An axis of the plan's ranks.
    Ranks,
    Number,
    /// A number that is a constant of the program, of that name.
    Constant,
    /// A list of that many numbers.
    List(Expr),
    /// What was not understood, and told.
    Unknown,
}
