//! Numbers, conditions, regions and peers.

use proc_macro2::{Delimiter, TokenTree};
use typed_nccl_plan::ir::{Comparison, MOST_NESTING, Operator as Arithmetic};

use super::cursor::{Cursor, int};
use crate::area::Area;
use crate::ast::{Expr, ExprKind, Operator};
use crate::fault::{Fault, Parsed};

/// The operators and their precedence; longer ones before their prefixes.
const OPERATORS: [(&str, Operator, u8); 14] = [
    ("||", Operator::Or, 1),
    ("&&", Operator::And, 2),
    ("==", Operator::Compare(Comparison::Equal), 3),
    ("!=", Operator::Compare(Comparison::NotEqual), 3),
    ("<=", Operator::Compare(Comparison::LessOrEqual), 3),
    (">=", Operator::Compare(Comparison::GreaterOrEqual), 3),
    ("<", Operator::Compare(Comparison::Less), 3),
    (">", Operator::Compare(Comparison::Greater), 3),
    ("^", Operator::Arithmetic(Arithmetic::Xor), 4),
    ("+", Operator::Arithmetic(Arithmetic::Add), 5),
    ("-", Operator::Arithmetic(Arithmetic::Sub), 5),
    ("*", Operator::Arithmetic(Arithmetic::Mul), 6),
    ("/", Operator::Arithmetic(Arithmetic::Div), 6),
    ("%", Operator::Arithmetic(Arithmetic::Rem), 6),
];

const COMPARES: u8 = 3;

pub(crate) fn expr(cursor: &mut Cursor) -> Parsed<Expr> {
    binary(cursor, 0)
}

/// Memory only, as before the sign of `b += a`.
pub(super) fn memory(cursor: &mut Cursor) -> Parsed<Expr> {
    let operand = operand(cursor)?;
    postfix(cursor, operand)
}

/// A range in brackets or of a loop; both ends are optional.
pub(crate) fn range(cursor: &mut Cursor) -> Parsed<Range> {
    let from = if cursor.is_punct(0, "..") { None } else { Some(expr(cursor)?) };
    if cursor.is_punct(0, "..=") {
        return Err(Fault::new(cursor.span(), "ranges of a plan end before their last number")
            .help("write `a..b + 1` for `a..=b`"));
    }
    if !cursor.take_punct("..") {
        return Ok(Range { from, to: None, is_range: false });
    }
    let ends = cursor.is_empty() || cursor.is_group(0, Delimiter::Brace);
    let to = if ends { None } else { Some(expr(cursor)?) };
    Ok(Range { from, to, is_range: true })
}

/// Whether `powers of 2` comes next, or nearly.
pub(super) fn is_powers(cursor: &Cursor) -> bool {
    (cursor.is_word(0, "powers") || cursor.is_word(0, "power")) && cursor.is_word(1, "of")
}

/// The base of `powers of 2`.
pub(super) fn powers(cursor: &mut Cursor) -> Parsed<Expr> {
    if cursor.is_word(0, "power") {
        return Err(cursor.expected("`powers`").help("write `powers of 2`"));
    }
    (0..2).for_each(|_| drop(cursor.next()));
    expr(cursor)
}

/// A range, or a single number in place of one.
pub(crate) struct Range {
    pub(crate) from: Option<Expr>,
    pub(crate) to: Option<Expr>,
    pub(crate) is_range: bool,
}

/// Signs that have a meaning for numbers in other languages.
const FOREIGN: [&str; 4] = ["&", "|", "<<", ">>"];

/// The error for an operator of another language.
fn foreign(cursor: &Cursor) -> Option<Fault> {
    let ours = cursor.is_punct(0, "&&") || cursor.is_punct(0, "||");
    let sign = FOREIGN.iter().filter(|_| !ours).find(|sign| cursor.is_punct(0, sign));
    let word = ["mod", "xor", "as"].iter().find(|word| cursor.is_word(0, word));
    let written = sign.or(word)?;
    let fault = Fault::new(cursor.span(), format!("numbers of a plan have no `{written}`"));
    Some(fault.help(match *written {
        "mod" => "the remainder is `%`, as in `(rank + 1) % n`",
        "as" => "all of them are whole numbers",
        "xor" => "the partner whose number differs in one bit is `rank ^ d`",
        _ => "they have `+`, `-`, `*`, `/`, `%` and `^`; conditions have `&&`, `||` and `!`",
    }))
}

fn binary(cursor: &mut Cursor, least: u8) -> Parsed<Expr> {
    let mut left = unary(cursor)?;
    if let Some(fault) = foreign(cursor) {
        return Err(fault);
    }
    while let Some((sign, operator, binds)) = operator(cursor) {
        if binds <= least {
            break;
        }
        cursor.take_punct(sign);
        let right = binary(cursor, binds)?;
        let area = left.area.to(right.area);
        left = node(area, left.height.max(right.height), {
            ExprKind::Binary(Box::new(left), operator, Box::new(right))
        })?;
        if binds == COMPARES && self::operator(cursor).is_some_and(|next| next.2 == COMPARES) {
            return Err(Fault::new(cursor.span(), "comparisons do not follow one another")
                .help("join two of them with `&&`: `0 < k && k < n`"));
        }
    }
    Ok(left)
}

fn operator(cursor: &Cursor) -> Option<(&'static str, Operator, u8)> {
    match cursor.peek(0) {
        Some(TokenTree::Punct(_)) => {
            OPERATORS.iter().find(|(sign, ..)| cursor.is_punct(0, sign)).copied()
        }
        _ => None,
    }
}

fn unary(cursor: &mut Cursor) -> Parsed<Expr> {
    let mut signs = Vec::new();
    loop {
        let first = cursor.span();
        let negates = cursor.take_punct("-");
        if !negates && !cursor.take_punct("!") {
            break;
        }
        if signs.len() == MOST_NESTING {
            return Err(too_high(first.into()));
        }
        signs.push((first, negates));
    }
    let operand = operand(cursor)?;
    let mut one = postfix(cursor, operand)?;
    for (first, negates) in signs.into_iter().rev() {
        let (area, height) = (Area::from(first).to(one.area), one.height);
        let kind = match one.kind {
            ExprKind::Int(value) if negates => ExprKind::Int(-value),
            _ if negates => ExprKind::Negated(Box::new(one)),
            _ => ExprKind::Not(Box::new(one)),
        };
        one = node(area, height, kind)?;
    }
    Ok(one)
}

fn operand(cursor: &mut Cursor) -> Parsed<Expr> {
    let first = cursor.span();
    let kind = match cursor.peek(0) {
        Some(TokenTree::Ident(word)) if word == "if" => return cases(cursor),
        Some(TokenTree::Ident(word)) if cursor.is_group(1, Delimiter::Parenthesis) => {
            let operator = match &*word.to_string() {
                "min" => Arithmetic::Min,
                "max" => Arithmetic::Max,
                "rank" => return ranked(cursor),
                _ => return node(first.into(), 0, ExprKind::Name(cursor.name("a name")?)),
            };
            return of_two(cursor, operator);
        }
        Some(TokenTree::Ident(_)) => ExprKind::Name(cursor.name("a name")?),
        Some(TokenTree::Literal(literal)) => {
            let value = int(literal)?;
            cursor.next();
            ExprKind::Int(value)
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            let mut inside = Cursor::of(group);
            cursor.next();
            let one = expr(&mut inside)?;
            inside.end("`)`")?;
            return Ok(Expr { area: first.into(), ..one });
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            let mut inside = Cursor::of(group);
            cursor.next();
            ExprKind::List(list(&mut inside)?)
        }
        _ => return Err(cursor.expected("a number, a name or `(`")),
    };
    node(first.into(), 0, kind)
}

/// `rank(number)`
fn ranked(cursor: &mut Cursor) -> Parsed<Expr> {
    let first = cursor.span();
    cursor.next();
    let mut inside = cursor.group(Delimiter::Parenthesis, "`(`")?;
    let number = expr(&mut inside)?;
    inside.end("`)`")?;
    node(cursor.since(first), number.height, ExprKind::Ranked(Box::new(number)))
}

/// `if rank % 2 == 0 { rank + 1 } else { rank - 1 }`
fn cases(cursor: &mut Cursor) -> Parsed<Expr> {
    let form = "as in `if rank % 2 == 0 { rank + 1 } else { rank - 1 }`";
    let first = cursor.span();
    cursor.next();
    let condition = expr(cursor)?;
    if cursor.is_punct(0, "=") {
        return Err(cursor.expected("a comparison").help("write `==` to compare"));
    }
    let then = case(cursor, form)?;
    cursor.word("else", &format!("and what it is where that does not hold, {form}"))?;
    let otherwise = if cursor.is_word(0, "if") { cases(cursor)? } else { case(cursor, form)? };
    let height = condition.height.max(then.height).max(otherwise.height);
    let kind = ExprKind::Cases(Box::new([condition, then, otherwise]));
    node(cursor.since(first), height, kind)
}

/// `{ rank + 1 }`
fn case(cursor: &mut Cursor, form: &str) -> Parsed<Expr> {
    let mut inside = cursor.group(Delimiter::Brace, &format!("`{{` and one of two, {form}"))?;
    let one = expr(&mut inside)?;
    inside.end("`}`")?;
    Ok(one)
}

/// `min(a, b)`
fn of_two(cursor: &mut Cursor, operator: Arithmetic) -> Parsed<Expr> {
    let first = Area::from(cursor.span());
    let name = cursor.name("a name")?;
    let mut inside = cursor.group(Delimiter::Parenthesis, "`(`")?;
    let area = Area { first: first.first, last: cursor.last() };
    let parts = <[Expr; 2]>::try_from(list(&mut inside)?);
    let [left, right] = parts.map_err(|_| {
        Fault::new(area, format!("`{name}` is of two numbers"))
            .help(format!("write `{name}(a, b)`; of three, `{name}({name}(a, b), c)`"))
    })?;
    node(area, left.height.max(right.height), {
        ExprKind::Binary(Box::new(left), Operator::Arithmetic(operator), Box::new(right))
    })
}

fn postfix(cursor: &mut Cursor, mut base: Expr) -> Parsed<Expr> {
    loop {
        let height = base.height;
        if cursor.is_punct(0, ".") {
            cursor.next();
            let name = cursor.name("a name after `.`")?;
            let arguments = if cursor.is_group(0, Delimiter::Parenthesis) {
                let mut inside = cursor.group(Delimiter::Parenthesis, "`(`")?;
                Some(list(&mut inside)?)
            } else {
                None
            };
            let area = Area { first: base.area.first, last: cursor.last() };
            base = node(
                area,
                height,
                match arguments {
                    Some(arguments) => ExprKind::Method(Box::new(base), name, arguments),
                    None => ExprKind::Field(Box::new(base), name),
                },
            )?;
        } else if cursor.is_group(0, Delimiter::Bracket) {
            let mut inside = cursor.group(Delimiter::Bracket, "`[`")?;
            let Range { from, to, is_range } = range(&mut inside)?;
            inside.end("`]`")?;
            let area = Area { first: base.area.first, last: cursor.last() };
            let tallest = |one: &Option<Expr>| one.as_ref().map_or(0, |one| one.height);
            let height = height.max(tallest(&from)).max(tallest(&to));
            base = node(
                area,
                height,
                match (is_range, from) {
                    (false, Some(index)) => ExprKind::Index(Box::new(base), Box::new(index)),
                    (_, from) => {
                        ExprKind::Slice(Box::new(base), from.map(Box::new), to.map(Box::new))
                    }
                },
            )?;
        } else {
            return Ok(base);
        }
    }
}

/// Expressions between commas, to the end.
pub(super) fn list(inside: &mut Cursor) -> Parsed<Vec<Expr>> {
    let mut list = Vec::new();
    while !inside.is_empty() {
        list.push(expr(inside)?);
        if !inside.take_punct(",") {
            inside.end("`,` or the end of the list")?;
        }
    }
    Ok(list)
}

/// An expression around others of that height. Excessive depth is refused here, where its place is
/// known, and before anything recurses into it.
fn node(area: Area, height: usize, kind: ExprKind) -> Parsed<Expr> {
    let height = height + 1;
    if height > MOST_NESTING {
        return Err(too_high(area));
    }
    Ok(Expr { kind, area, height })
}

fn too_high(area: Area) -> Fault {
    Fault::new(area, "this has too many parts in one another")
        .help("give a part of it a name of its own with `let`")
}
