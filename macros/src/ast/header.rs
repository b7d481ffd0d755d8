//! The part of a plan before its body.

use proc_macro2::{Ident, TokenStream};
use typed_nccl_plan::ir;

use super::{Block, Counted, Expr, Listed, Lost};
use crate::area::Area;

#[derive(Debug)]
pub(crate) struct Plan {
    /// Attributes to pass on, including documentation.
    pub(crate) attributes: TokenStream,
    /// The `cfg` attributes among them.
    pub(crate) conditions: TokenStream,
    pub(crate) settings: Settings,
    pub(crate) visibility: TokenStream,
    pub(crate) name: Ident,
    pub(crate) types: Vec<TypeParam>,
    pub(crate) params: Vec<Param>,
    /// Parameters that could not be parsed.
    pub(crate) lost: Lost,
    pub(crate) promises: Vec<Promised>,
    pub(crate) body: Block,
}

/// A condition after `where`.
#[derive(Debug)]
pub(crate) enum Promised {
    Holds(Expr),
    /// `for i in 0..n { counts[i] <= capacity }`
    For {
        counted: Box<Counted>,
        body: Vec<Self>,
    },
    /// `for part in [2, 4] { len % part == 0 }`
    Each {
        names: Vec<Ident>,
        list: Listed,
        body: Vec<Self>,
    },
}

/// The settings from a plan's attributes.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) captured: bool,
    pub(crate) once: bool,
    pub(crate) without_kernels: bool,
    pub(crate) target: Option<ir::Version>,
    pub(crate) implicit_order: bool,
    pub(crate) checks: Vec<Check>,
}

/// Sizes to check.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) area: Area,
    pub(crate) sizes: Vec<(Ident, Vec<i64>)>,
}

#[derive(Debug)]
pub(crate) struct TypeParam {
    pub(crate) name: Ident,
    /// `Element`, `Numeric` or `Float`; `None` if the bound is another one, which was reported.
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
    /// A number that is a constant of the program, by its name.
    Constant,
    /// A list of this many numbers.
    List(Expr),
    /// A list of this many numbers, which each run passes.
    Counts(Expr),
    /// Could not be parsed, and was reported.
    Unknown,
}
