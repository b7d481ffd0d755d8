//! Recovery from statements that could not be parsed: collects the names that they may declare, and
//! their blocks. Uses of such names are not reported, and the steps of the blocks are kept.

use proc_macro2::{Delimiter, TokenTree};

use super::cursor::Cursor;
use super::{block, words};
use crate::area::Area;
use crate::ast::{Lost, Statement, StatementKind, StreamClause, text};
use crate::fault::Fault;

/// Skips the statement that could not be parsed: past its `;`, or its braces.
pub(super) fn skip(cursor: &mut Cursor) {
    while let Some(token) = cursor.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            // Tokens after an `if` belong to it, as do tokens after a peer by cases.
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Brace
                    && !["else", "into"].iter().any(|word| cursor.is_word(0, word)) =>
            {
                return;
            }
            _ => {}
        }
    }
}

/// Skips to the end of the statement, without taking it.
pub(super) fn to_end(cursor: &mut Cursor) {
    cursor.skip_to(|cursor| cursor.is_punct(0, ";") || cursor.is_group(0, Delimiter::Brace));
}

/// Describes the statement from there to here, none of whose blocks were parsed.
pub(super) fn broken(from: &Cursor, cursor: &Cursor, faults: &mut Vec<Fault>) -> Statement {
    let tokens = cursor.after(from);
    let mut bodies = Vec::new();
    // A declaration has no block, nor has a message: braces are cases of its peer.
    let declares = starts_with(tokens, &words::DECLARATIONS)
        || starts_with(tokens, &["send", "recv", "put", "wait"]);
    for token in tokens.iter().filter(|_| !declares) {
        if let TokenTree::Group(group) = token
            && group.delimiter() == Delimiter::Brace
        {
            bodies.push(block::block(&mut Cursor::of(group), faults));
        }
    }
    let lost = lost(tokens);
    let area = Area { first: from.span(), last: cursor.last() };
    let kind = StatementKind::Broken { lost, bodies };
    Statement { docs: Default::default(), kind, place: StreamClause::default(), area }
}

fn starts_with(tokens: &[TokenTree], list: &[&str]) -> bool {
    let first = tokens.first();
    matches!(first, Some(TokenTree::Ident(word)) if list.contains(&&*word.to_string()))
}

/// The names that these tokens may declare.
fn lost(tokens: &[TokenTree]) -> Lost {
    let does = words::STATEMENTS.iter().filter(|word| **word != "for");
    let does: Vec<&str> = does.chain(&words::COLLECTIVES).copied().collect();
    if starts_with(tokens, &does) {
        return Lost::default();
    }
    let names = tokens.iter().filter_map(|token| match token {
        TokenTree::Ident(name) => Some(text(name)),
        _ => None,
    });
    let declares = starts_with(tokens, &words::DECLARATIONS)
        || starts_with(tokens, &["for"])
        // The block of a construct that could not be parsed.
        || matches!(tokens.first(), Some(TokenTree::Group(_)));
    let is_name =
        |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Ident(name)) if name != "in");
    let is_comma =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
    let nameless = declares
        && (0..tokens.len())
            .any(|at| (at == 0 || is_comma(&tokens[at])) && !is_name(tokens.get(at + 1)));
    Lost { names: names.collect(), nameless }
}

/// The names among the tokens from there to here.
pub(super) fn names(from: &Cursor, cursor: &Cursor) -> Vec<String> {
    lost(cursor.after(from)).names
}
