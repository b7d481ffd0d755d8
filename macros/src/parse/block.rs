//! Statements between braces.

use proc_macro2::{Delimiter, Ident, Span};

use super::broken::{broken, skip};
use super::cursor::Cursor;
use super::listed::Turns;
use super::unfinished::{on_this_line, unfinished};
use super::{assign, attr, claim, collective, declare, expr, listed, message, run, words};
use crate::ast::{Block, Expr, ExprKind, Statement, StatementKind, StreamClause};
use crate::fault::{Fault, Parsed};

/// A parsed statement: what it does, and where.
pub(super) type Said = (StatementKind, StreamClause);

/// All statements up to the end. After an error in one, continues with the next.
pub(super) fn block(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Block {
    let mut block = Vec::new();
    while !cursor.is_empty() {
        if cursor.take_punct(";") {
            continue;
        }
        let from = cursor.clone();
        match statement(cursor, faults) {
            Ok(statement) => block.push(statement),
            Err(fault) => {
                faults.push(fault);
                skip(cursor);
                block.push(broken(&from, cursor, faults));
            }
        }
    }
    block
}

fn statement(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Statement> {
    let docs = attr::docs(cursor, faults);
    let first = cursor.span();
    let from = cursor.clone();
    let begins = "a statement: memory (`in`, `out`, `inout`, `local`), a message (`send`, `recv`, `put`), a \
                  collective (`all_reduce`), `run`, `for`, `if`";
    let word = cursor.name(begins)?;
    // A statement with a block reports its own end.
    let block_kind = match &*word.to_string() {
        "group" => Some(placed(cursor, "`group`", StatementKind::Group, faults)),
        "sequence" => Some(placed(cursor, "`sequence`", StatementKind::Sequence, faults)),
        "on" => Some(on(cursor, faults)),
        "computes" if cursor.is_group(0, Delimiter::Brace) => {
            let body = body(cursor, "`computes`", faults);
            Some(body.map(|(last, body)| plain(StatementKind::Claims(body), last)))
        }
        "here" if cursor.is_group(0, Delimiter::Brace) => {
            let body = body(cursor, "`here`", faults);
            Some(body.map(|(last, body)| plain(StatementKind::Here(body), last)))
        }
        "for" => Some(counted(cursor, faults)),
        "if" => Some(guarded(cursor, faults)),
        _ => None,
    };
    if let Some(parsed) = block_kind {
        let (kind, place, last) = parsed?;
        let area = crate::area::Area { first, last };
        return Ok(Statement { docs, kind, place, area });
    }
    let (kind, mut place) = simple(cursor, word, &from, faults)?;
    let area = cursor.since(first);
    if !cursor.take_punct(";") {
        let fault = unfinished(cursor, &kind, &place);
        // Tokens that begin like a statement are parsed as one.
        let next = cursor.peek(0).map(ToString::to_string);
        let begins = |next: String| !goes_on(cursor) && words::all().any(|word| word == next);
        if cursor.is_empty() || next.is_some_and(begins) {
            faults.push(fault);
        } else if is_seen(&kind) {
            faults.push(fault);
            place.unknown = true;
            skip(cursor);
        } else {
            return Err(fault);
        }
    }
    Ok(Statement { docs, kind, place, area })
}

/// Whether a declaration is part of the plan's module, or was known before it: then it is kept,
/// whatever follows it.
fn is_seen(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::Memory(_)
            | StatementKind::Streams(_)
            | StatementKind::Signals(_)
            | StatementKind::Communicator { .. }
            | StatementKind::Run { .. }
    )
}

/// Whether the next token continues the statement before: a word in the wrong order.
fn goes_on(cursor: &Cursor) -> bool {
    ["on", "signal", "computes"].iter().any(|word| cursor.is_word(0, word)) && on_this_line(cursor)
}

/// A statement without a block that begins with this word.
fn simple(
    cursor: &mut Cursor,
    word: Ident,
    from: &Cursor,
    faults: &mut Vec<Fault>,
) -> Parsed<Said> {
    // Memory may be called `out`; where the word declares memory, a name comes next.
    let is_name = word == "out" || !words::all().any(|known| word == known);
    if is_name && assign::is_assign(cursor) {
        *cursor = from.clone();
        return assign::assign(cursor);
    }
    // `rail.send a to p`
    if cursor.take_punct(".") {
        let what =
            cursor.name("what the communicator does: `send`, `put`, `all_reduce` and so on")?;
        return communication(cursor, Some(word), what);
    }
    match &*word.to_string() {
        "in" | "out" | "inout" | "local" => declare::memory(cursor, Some(&word), faults),
        "stream" => declare::names(cursor, "stream", StatementKind::Streams, faults),
        "signal" if !cursor.is_word(1, "to") => {
            let names = declare::names(cursor, "signal", StatementKind::Signals, faults)?;
            if on_this_line(cursor) && !cursor.is_empty() && !cursor.is_punct(0, ";") {
                return Err(cursor.expected("`;` or `to` and a rank").help(
                    "`signal s;` declares a signal, and `signal s to (rank + 1) % n;` raises it",
                ));
            }
            Ok(names)
        }
        "comm" => declare::communicator(cursor),
        "const" => listed::constant(cursor),
        "let" => declare::named(cursor),
        "covers" => {
            let region = expr::expr(cursor)?;
            Ok((StatementKind::Covers(region), StreamClause::default()))
        }
        "computes" => claim::computes(cursor),
        "here" => claim::here(cursor),
        "run" => run::run(cursor, faults),
        name if words::all().any(|known| known == name) => communication(cursor, None, word),
        _ if declare::is_memory(from) => {
            *cursor = from.clone();
            declare::memory(cursor, None, faults)
        }
        name if run::is_run(cursor) => {
            let fault = Fault::new(word.span(), format!("no statement begins with `{name}`"));
            faults.push(fault.help(format!("did you mean `run {name}(..)`?")));
            Ok(run::named(cursor, word, faults))
        }
        name => Err(unknown(&word, name, None)),
    }
}

fn communication(cursor: &mut Cursor, through: Option<Ident>, what: Ident) -> Parsed<Said> {
    let kind = match &*what.to_string() {
        "send" => message::send(cursor, through)?,
        "recv" => message::receive(cursor, through)?,
        "put" => message::put(cursor, through)?,
        "signal" => message::signal(cursor, through)?,
        "wait" => message::wait(cursor, through)?,
        name if words::COLLECTIVES.contains(&name) => {
            StatementKind::Collective(collective::collective(cursor, through, what)?)
        }
        name => return Err(unknown(&what, name, through.as_ref())),
    };
    Ok((kind, place(cursor)?))
}

fn unknown(what: &Ident, name: &str, through: Option<&Ident>) -> Fault {
    if name == "get" {
        return Fault::new(what.span(), "no statement begins with `get`").help(
            "to read another rank's window, write `v = u of peer;`, as in `v = u of (rank + 1) % n;`",
        );
    }
    let meant = words::meant(name);
    match through {
        None => Fault::new(what.span(), format!("no statement begins with `{name}`")).help(match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "statements are `send`, `recv`, `put`, `signal`, `wait`, the collectives, `run`, `group`, \
                     `sequence`, `on`, `for`, `if`, `here`, `let` and `const`"
                .to_owned(),
        }),
        Some(through) => {
            let fault = Fault::new(what.span(), format!("a communicator has no `{name}`"));
            match meant {
                Some(meant) => fault.help(format!("did you mean `{through}.{meant}`?")),
                None => fault.help(
                    "it has `send`, `recv`, `put`, `signal`, `wait` and the collectives, as `all_reduce`",
                ),
            }
        }
    }
}

/// `on net after cmp, aux`, each part optional.
pub(super) fn place(cursor: &mut Cursor) -> Parsed<StreamClause> {
    let mut place = StreamClause::default();
    if cursor.take_word("on") {
        place.on = Some(cursor.name("a stream after `on`")?);
    }
    after(cursor, &mut place)?;
    Ok(place)
}

fn after(cursor: &mut Cursor, place: &mut StreamClause) -> Parsed<()> {
    if cursor.take_word("after") {
        place.after.push(cursor.name("a stream after `after`")?);
        while cursor.take_punct(",") {
            place.after.push(cursor.name("another stream")?);
        }
    }
    Ok(())
}

/// A block whose place may follow it.
fn placed(
    cursor: &mut Cursor,
    word: &str,
    kind: fn(Block) -> StatementKind,
    faults: &mut Vec<Fault>,
) -> Parsed<WithBlock> {
    let (last, body) = body(cursor, word, faults)?;
    Ok((kind(body), place_after(cursor), last))
}

/// `group { .. } on net;`, unless a stream's block follows.
fn place_after(cursor: &mut Cursor) -> StreamClause {
    let mut ahead = cursor.clone();
    match place(&mut ahead) {
        Ok(place) if ahead.is_punct(0, ";") => {
            *cursor = ahead;
            place
        }
        _ => StreamClause::default(),
    }
}

/// A statement with a block: what it does, where, and the end of the part before the block.
type WithBlock = (StatementKind, StreamClause, Span);

fn plain(kind: StatementKind, last: Span) -> WithBlock {
    (kind, StreamClause::default(), last)
}

/// The statements of the next block, and the span of the token before it.
fn body(cursor: &mut Cursor, after: &str, faults: &mut Vec<Fault>) -> Parsed<(Span, Block)> {
    let last = cursor.last();
    let inside = cursor.group(Delimiter::Brace, &format!("`{{` after {after}"));
    let mut inside = inside.map_err(|fault| match cursor.peek(1) {
        // `group on net { .. }`
        Some(stream) if cursor.is_word(0, "on") => fault.help(match after {
            "`group`" | "`sequence`" => {
                format!("write `{} {{ .. }} on {stream};`", after.trim_matches('`'))
            }
            _ => format!("put it in a block of the stream: `on {stream} {{ .. }}`"),
        }),
        _ => fault,
    })?;
    Ok((last, block(&mut inside, faults)))
}

fn on(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<WithBlock> {
    let mut place =
        StreamClause { on: Some(cursor.name("a stream after `on`")?), ..StreamClause::default() };
    after(cursor, &mut place)?;
    let (last, body) = body(cursor, "the stream", faults)?;
    Ok((StatementKind::On(body), place, last))
}

fn counted(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<WithBlock> {
    let form = "as in `for i in 0..k { .. }`, `for i in (0..k).rev() { .. }`, `for d in powers of 2 below n { .. }` \
                or `for i in [1, 2, 4] { .. }`";
    let mut reverse = false;
    let turns = listed::turns(cursor, form, |cursor| {
        reverse = is_reversed(cursor);
        if !reverse {
            return counts(cursor);
        }
        let mut inside = cursor.group(Delimiter::Parenthesis, "`(`")?;
        (0..3).for_each(|_| drop(cursor.next()));
        let counts = counts(&mut inside)?;
        inside.end("`)`")?;
        Ok(counts)
    })?;
    match turns {
        Turns::Rows(names, list) => {
            let (last, body) = body(cursor, "the list", faults)?;
            Ok(plain(StatementKind::Each { names, list, body }, last))
        }
        Turns::Counted(counted) => {
            let (last, body) = body(cursor, "the range", faults)?;
            Ok(plain(StatementKind::For { counted: *counted, reverse, body }, last))
        }
    }
}

/// The base of the powers that a loop counts through, and its range.
pub(super) type Counts = (Option<Expr>, expr::Range);

/// `0..k`, or `powers of 2 below n`: the base, and the range.
pub(super) fn counts(cursor: &mut Cursor) -> Parsed<Counts> {
    let first = cursor.span();
    if !expr::is_powers(cursor) {
        return Ok((None, expr::range(cursor)?));
    }
    let base = expr::powers(cursor)?;
    cursor.word("below", "and the number before which they end, as in `powers of 2 below n`")?;
    let to = expr::expr(cursor)?;
    let from = Some(Expr { kind: ExprKind::Int(1), area: first.into(), height: 1 });
    Ok((Some(base), expr::Range { from, to: Some(to), is_range: true }))
}

/// Whether `(..).rev()` comes next.
fn is_reversed(cursor: &Cursor) -> bool {
    cursor.is_group(0, Delimiter::Parenthesis)
        && cursor.is_punct(1, ".")
        && cursor.is_word(2, "rev")
        && cursor.is_group(3, Delimiter::Parenthesis)
}

fn guarded(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<WithBlock> {
    let condition = expr::expr(cursor)?;
    if cursor.is_punct(0, "=") {
        return Err(cursor.expected("a comparison").help("write `==` to compare"));
    }
    let (last, then) = body(cursor, "the condition", faults)?;
    let otherwise = cursor.take_word("else").then(|| {
        let from = cursor.clone();
        otherwise(cursor, faults).unwrap_or_else(|fault| {
            faults.push(fault);
            skip(cursor);
            vec![broken(&from, cursor, faults)]
        })
    });
    Ok(plain(StatementKind::If { condition, then, otherwise }, last))
}

/// The part after `else`. An error occurs before any block is parsed.
fn otherwise(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Block> {
    let first = cursor.span();
    if !cursor.take_word("if") {
        return Ok(body(cursor, "`else`", faults)?.1);
    }
    let (kind, place, last) = guarded(cursor, faults)?;
    let area = crate::area::Area { first, last };
    Ok(vec![Statement { docs: Default::default(), kind, place, area }])
}
