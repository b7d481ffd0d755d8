//! Numbers, conditions, regions and peers: one syntax until names are looked up.

use proc_macro2::Ident;
use typed_nccl_plan::ir::{Comparison, Operator as Arithmetic};

use crate::area::Area;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) area: Area,
    /// Depth of nesting.
    pub(crate) height: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Int(i64),
    Name(Ident),
    /// `rank.rows`, `u.next`
    Field(Box<Expr>, Ident),
    /// `sizes[i]`, `g[i]`
    Index(Box<Expr>, Box<Expr>),
    /// `x[a..b]`
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// `x.chunk(parts, index)`
    Method(Box<Expr>, Ident, Vec<Expr>),
    Negated(Box<Expr>),
    Not(Box<Expr>),
    Binary(Box<Expr>, Operator, Box<Expr>),
    /// `[(rank.rows + 1) % rows, rank.cols - 1]`
    List(Vec<Expr>),
    /// `rank(2 * k)`: a rank by its number.
    Ranked(Box<Expr>),
    /// `if rank % 2 == 0 { rank + 1 } else { rank - 1 }`
    Cases(Box<[Expr; 3]>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operator {
    Arithmetic(Arithmetic),
    Compare(Comparison),
    And,
    Or,
}

impl Expr {
    /// The base of the expression: `u` of `u.next[a..b]`.
    pub(crate) fn root(&self) -> Option<&Ident> {
        let mut expr = self;
        loop {
            expr = match &expr.kind {
                ExprKind::Name(name) => return Some(name),
                ExprKind::Field(base, _)
                | ExprKind::Index(base, _)
                | ExprKind::Slice(base, ..)
                | ExprKind::Method(base, ..) => base,
                _ => return None,
            };
        }
    }

    /// Whether the name occurs anywhere in it.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        match &self.kind {
            ExprKind::Int(_) => false,
            ExprKind::Name(one) => one == name,
            ExprKind::Field(base, _) => base.mentions(name),
            ExprKind::Index(base, index) => base.mentions(name) || index.mentions(name),
            ExprKind::Slice(base, from, to) => {
                let mut ends = from.iter().chain(to);
                base.mentions(name) || ends.any(|end| end.mentions(name))
            }
            ExprKind::Method(base, _, arguments) => {
                base.mentions(name) || arguments.iter().any(|one| one.mentions(name))
            }
            ExprKind::Negated(one) | ExprKind::Not(one) => one.mentions(name),
            ExprKind::Binary(left, _, right) => left.mentions(name) || right.mentions(name),
            ExprKind::List(parts) => parts.iter().any(|part| part.mentions(name)),
            ExprKind::Ranked(number) => number.mentions(name),
            ExprKind::Cases(parts) => parts.iter().any(|part| part.mentions(name)),
        }
    }
}
