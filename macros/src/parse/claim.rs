//! Memory of ranks, in assignments and in what a plan says that memory holds: `b = a of rank - 1`,
//! `x = sum(for r in 0..n { x of r })`.

use proc_macro2::{Delimiter, TokenTree};
use typed_nccl_plan::ir::Operator as Arithmetic;

use super::block::{Said, counts};
use super::cursor::Cursor;
use super::listed::{self, Turns};
use super::{assign, collective, expr};
use crate::area::Area;
use crate::ast::{
    Assigned, Expr, ExprKind, Operator, Statement, StatementKind, StreamClause, Term,
};
use crate::fault::{Fault, Parsed};

const FORMS: &str = "as in `computes all_gather(a -> b);`, `computes b = a of rank - 1;` or \
                     `computes x = sum(for r in 0..n { x of r });`";

/// The names of what combines regions of ranks.
const REDUCTIONS: [&str; 5] = ["sum", "prod", "min", "max", "avg"];

const EQUATIONS: &str = "a claim is `b = a of rank - 1`, or combines terms with `sum`, `prod`, `min`, `max` or `avg`: \
                         `b = sum(for r in 0..n { a of r })`";

/// The part after `computes`.
pub(super) fn computes(cursor: &mut Cursor) -> Parsed<Said> {
    let mut ahead = cursor.clone();
    let name = ahead.name(&format!("a collective or memory, {FORMS}"))?;
    if assign::is_assign(&ahead) {
        let claims = vec![equation(cursor)?];
        return Ok((StatementKind::Claims(claims), StreamClause::default()));
    }
    if !ahead.is_group(0, Delimiter::Parenthesis) {
        return Err(ahead.expected("`=` or `(`").help(format!("write what it computes {FORMS}")));
    }
    *cursor = ahead;
    let computed = collective::collective(cursor, None, name)?;
    Ok((StatementKind::Computes(computed), StreamClause::default()))
}

/// The part after `here`.
pub(super) fn here(cursor: &mut Cursor) -> Parsed<Said> {
    let form = "as in `here b = a of 0;` or `here x = sum(for r in 0..n { part of r });`";
    let mut ahead = cursor.clone();
    ahead.name(&format!("memory, {form}"))?;
    if !assign::is_assign(&ahead) {
        return Err(ahead.expected("`=`").help(format!("write what memory holds here, {form}")));
    }
    Ok((StatementKind::Here(vec![equation(cursor)?]), StreamClause::default()))
}

fn equation(cursor: &mut Cursor) -> Parsed<Statement> {
    let first = cursor.span();
    let (kind, place) = assign::equation(cursor, EQUATIONS)?;
    Ok(Statement { docs: Default::default(), kind, place, area: cursor.since(first) })
}

/// A right side with terms of ranks: `sum(..)`, or `min(..)` with terms in it.
pub(super) fn is_of_ranks(cursor: &Cursor) -> bool {
    let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(group))) =
        (cursor.peek(0), cursor.peek(1))
    else {
        return false;
    };
    let is_term = |token: TokenTree| match token {
        TokenTree::Ident(word) => ["of", "for", "if"].iter().any(|term| word == term),
        _ => false,
    };
    let name = name.to_string();
    group.delimiter() == Delimiter::Parenthesis
        && REDUCTIONS.contains(&&*name)
        && (["sum", "prod"].contains(&&*name) || group.stream().into_iter().any(is_term))
}

/// `sum(x, for r in 0..n { x of r })`
pub(super) fn reduced(cursor: &mut Cursor) -> Parsed<Assigned> {
    let first = cursor.span();
    let by = cursor.name("a reduction")?;
    let mut inside = cursor.group(Delimiter::Parenthesis, "`(`")?;
    let terms = terms(&mut inside)?;
    Ok(Assigned::OfRanks { by: Some(by), sign: None, terms, area: cursor.since(first) })
}

/// Memory that was parsed, and the rank after `of`; then further terms.
///
/// What follows `of` is parsed as one number: where another `of` comes, its last operand is the
/// next region, as `u` in `u of 0 + u of 1`.
pub(super) fn of(cursor: &mut Cursor, memory: Expr) -> Parsed<Assigned> {
    let first = memory.area;
    let (mut sign, mut terms) = (None, Vec::new());
    let mut region = last(memory, &mut sign, &mut terms)?;
    while cursor.take_word("of") {
        let rank = expr::expr(cursor)?;
        if !cursor.is_word(0, "of") {
            terms.push(Term::Memory { region, of: Some(rank) });
            break;
        }
        let ExprKind::Binary(rank, operator, next) = rank.kind else {
            let form = "as in `x = u of 0 + u of 1`";
            return Err(cursor
                .expected("`+`, `*` or the end")
                .help(format!("one rank follows `of`, {form}")));
        };
        joins(operator, next.area, &mut sign)?;
        terms.push(Term::Memory { region, of: Some(*rank) });
        region = *next;
    }
    let area = first.to(cursor.last().into());
    Ok(Assigned::OfRanks { by: None, sign, terms, area })
}

/// The last operand of a sum or a product, whose other operands are memory of this rank.
fn last(memory: Expr, sign: &mut Option<Arithmetic>, terms: &mut Vec<Term>) -> Parsed<Expr> {
    let ExprKind::Binary(before, operator, last) = memory.kind else { return Ok(memory) };
    joins(operator, last.area, sign)?;
    let before = self::last(*before, sign, terms)?;
    terms.push(Term::Memory { region: before, of: None });
    Ok(*last)
}

/// All terms have one sign between them.
fn joins(operator: Operator, area: Area, sign: &mut Option<Arithmetic>) -> Parsed<()> {
    match operator {
        Operator::Arithmetic(one @ (Arithmetic::Add | Arithmetic::Mul))
            if sign.is_none_or(|known| known == one) =>
        {
            *sign = Some(one);
            Ok(())
        }
        _ => Err(Fault::new(area, "this is not one reduction")
            .help("memory of ranks is joined by `+` or by `*` alone: `x = u of 0 + u of 1`")),
    }
}

/// All up to the end, separated by commas, which may be left out behind a block.
fn terms(inside: &mut Cursor) -> Parsed<Vec<Term>> {
    let mut terms = Vec::new();
    while !inside.is_empty() {
        let is_block = inside.is_word(0, "for") || inside.is_word(0, "if");
        terms.push(if inside.take_word("for") {
            each(inside)?
        } else if inside.take_word("if") {
            guarded(inside)?
        } else {
            let region = expr::memory(inside)?;
            let of = inside.take_word("of").then(|| expr::expr(inside)).transpose()?;
            Term::Memory { region, of }
        });
        if !inside.take_punct(",") && !is_block && !inside.is_empty() {
            return Err(inside.expected("`of`, `,` or the end, as in `sum(x, x of rank - 1)`"));
        }
    }
    Ok(terms)
}

fn body(inside: &mut Cursor) -> Parsed<Vec<Term>> {
    let form = "`{` and memory, as in `for r in 0..n { x of r }`";
    terms(&mut inside.group(Delimiter::Brace, form)?)
}

/// `for r in 0..n { x of r }`
fn each(inside: &mut Cursor) -> Parsed<Term> {
    let form = "as in `for r in 0..n { x of r }`";
    Ok(match listed::turns(inside, form, counts)? {
        Turns::Rows(names, list) => Term::Each { names, list, body: body(inside)? },
        Turns::Counted(counted) => Term::For { counted: *counted, body: body(inside)? },
    })
}

/// `if r != rank { x of r }`
fn guarded(inside: &mut Cursor) -> Parsed<Term> {
    let condition = expr::expr(inside)?;
    let then = body(inside)?;
    let otherwise = match inside.take_word("else") {
        false => Vec::new(),
        true if inside.take_word("if") => vec![guarded(inside)?],
        true => body(inside)?,
    };
    Ok(Term::If { condition, then, otherwise })
}
