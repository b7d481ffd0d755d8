//! Assignments: `x += y`, `x = max(x, y)`, `x = y`.

use proc_macro2::Delimiter;
use typed_nccl_plan::ir::Operator as Arithmetic;

use super::block::{Said, place};
use super::cursor::Cursor;
use super::{claim, expr};
use crate::ast::{Assigned, ExprKind, StatementKind};
use crate::fault::{Fault, Parsed};

/// The signs between the sides, and the operator of an update.
pub(super) const SIGNS: [(&str, Option<Arithmetic>); 3] =
    [("+=", Some(Arithmetic::Add)), ("*=", Some(Arithmetic::Mul)), ("=", None)];

/// Signs that assign in other languages.
const FOREIGN: [&str; 7] = ["-=", "/=", "%=", "^=", "|=", "&=", "<-"];

const FORMS: &str = "these are `x = y`, `x += y`, `x *= y`, `x = y + z`, `x = y * z`, `x = min(x, y)`, `x = max(x, y)` \
                     and `x = avg(x, y)`";

/// Whether this is an assignment; the cursor is past its first word.
pub(super) fn is_assign(cursor: &Cursor) -> bool {
    let mut ahead = cursor.clone();
    // Past the memory, however it is written.
    loop {
        if ahead.is_punct(0, ".") && ahead.is_name(1) {
            (0..2).for_each(|_| drop(ahead.next()));
            if ahead.is_group(0, Delimiter::Parenthesis) {
                ahead.next();
            }
        } else if ahead.is_group(0, Delimiter::Bracket) {
            ahead.next();
        } else {
            break;
        }
    }
    let is = |sign: &str| ahead.is_punct(0, sign);
    (SIGNS.iter().any(|(sign, _)| is(sign)) || FOREIGN.into_iter().any(is)) && !is("==")
}

/// `x[a..b] += y`, and where it runs.
pub(super) fn assign(cursor: &mut Cursor) -> Parsed<Said> {
    equation(cursor, FORMS)
}

/// An assignment, or a claim that looks like one, of these forms.
pub(super) fn equation(cursor: &mut Cursor, forms: &str) -> Parsed<Said> {
    let to = expr::memory(cursor)?;
    let Some((_, update)) = SIGNS.iter().find(|(sign, _)| cursor.take_punct(sign)) else {
        let sign = FOREIGN.into_iter().find(|sign| cursor.is_punct(0, sign)).unwrap_or("=");
        let fault = Fault::new(cursor.span(), format!("memory of a plan has no `{sign}`"));
        return Err(fault.help(forms));
    };
    if cursor.is_punct(0, ";") {
        return Err(cursor.expected("memory").help(forms));
    }
    let is_average = cursor.is_word(0, "avg") && cursor.is_group(1, Delimiter::Parenthesis);
    let value = if claim::is_of_ranks(cursor) {
        claim::reduced(cursor)?
    } else if is_average && update.is_none() {
        let first = cursor.span();
        cursor.next();
        let mut inside = cursor.group(Delimiter::Parenthesis, "`(`")?;
        Assigned::Average(expr::list(&mut inside)?, cursor.since(first))
    } else {
        let value = expr::expr(cursor)?;
        if let (ExprKind::Name(name), true) =
            (&value.kind, cursor.is_group(0, Delimiter::Parenthesis))
        {
            let fault = Fault::new(name.span(), format!("`{name}` does not combine memory"));
            return Err(fault.help(forms));
        }
        if cursor.is_word(0, "of") { claim::of(cursor, value)? } else { Assigned::Reduced(value) }
    };
    Ok((StatementKind::Assign { to, update: *update, value }, place(cursor)?))
}
