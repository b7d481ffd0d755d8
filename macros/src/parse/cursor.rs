//! A cursor over tokens.

use std::rc::Rc;

use proc_macro2::{Delimiter, Group, Ident, Literal, Spacing, Span, TokenStream, TokenTree};

use crate::area::Area;
use crate::fault::{Fault, Parsed};

/// The tokens of one group, and the current position.
#[derive(Clone)]
pub(crate) struct Cursor {
    tokens: Rc<[TokenTree]>,
    at: usize,
    /// The span of the group's end.
    close: Span,
    /// The token before this position.
    last: Span,
}

impl Cursor {
    pub(crate) fn new(tokens: TokenStream, open: Span, close: Span) -> Self {
        Self { tokens: tokens.into_iter().map(plain).collect(), at: 0, close, last: open }
    }

    pub(crate) fn of(group: &Group) -> Self {
        Self::new(group.stream(), group.span_open(), group.span_close())
    }

    pub(crate) fn peek(&self, nth: usize) -> Option<&TokenTree> {
        self.tokens.get(self.at + nth)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// The span of the next token, or of the end.
    pub(crate) fn span(&self) -> Span {
        self.peek(0).map_or(self.close, TokenTree::span)
    }

    /// The span of the token before.
    pub(crate) fn last(&self) -> Span {
        self.last
    }

    /// The area from the token with that span to the one before this position.
    pub(crate) fn since(&self, first: Span) -> Area {
        Area { first, last: self.last }
    }

    pub(crate) fn next(&mut self) -> Option<TokenTree> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        self.last = token.span();
        Some(token)
    }

    /// The tokens from an earlier position to here.
    pub(crate) fn after(&self, there: &Self) -> &[TokenTree] {
        self.tokens.get(there.at..self.at).unwrap_or_default()
    }

    /// Whether the token at `nth` is this word.
    pub(crate) fn is_word(&self, nth: usize, word: &str) -> bool {
        matches!(self.peek(nth), Some(TokenTree::Ident(ident)) if ident == word)
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(0, word);
        if is {
            self.next();
        }
        is
    }

    pub(crate) fn word(&mut self, word: &str, then: &str) -> Parsed<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}` {then}"))) }
    }

    /// Whether the punctuation at `nth` is this, and not the start of a longer one.
    pub(crate) fn is_punct(&self, nth: usize, punct: &str) -> bool {
        let mut chars = punct.chars().enumerate().peekable();
        while let Some((offset, char)) = chars.next() {
            let Some(TokenTree::Punct(found)) = self.peek(nth + offset) else { return false };
            let joint = found.spacing() == Spacing::Joint;
            if found.as_char() != char || (chars.peek().is_some() && !joint) {
                return false;
            }
            // `.` of `..`, `-` of `->`, `<` of `<=` are different signs.
            if chars.peek().is_none()
                && joint
                && let Some(TokenTree::Punct(after)) = self.peek(nth + offset + 1)
                && matches!(
                    (char, after.as_char()),
                    ('.', '.') | ('-', '>') | ('<' | '>' | '!', '=')
                )
            {
                return false;
            }
        }
        true
    }

    pub(crate) fn take_punct(&mut self, punct: &str) -> bool {
        let is = self.is_punct(0, punct);
        if is {
            punct.chars().for_each(|_| drop(self.next()));
        }
        is
    }

    pub(crate) fn punct(&mut self, punct: &str, then: &str) -> Parsed<()> {
        if self.take_punct(punct) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{punct}` {then}")))
        }
    }

    pub(crate) fn name(&mut self, what: &str) -> Parsed<Ident> {
        match self.peek(0) {
            Some(TokenTree::Ident(name)) => {
                let name = name.clone();
                self.next();
                Ok(name)
            }
            _ => Err(self.expected(what)),
        }
    }

    pub(crate) fn is_name(&self, nth: usize) -> bool {
        matches!(self.peek(nth), Some(TokenTree::Ident(_)))
    }

    pub(crate) fn is_group(&self, nth: usize, delimiter: Delimiter) -> bool {
        matches!(self.peek(nth), Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
    }

    pub(crate) fn group(&mut self, delimiter: Delimiter, what: &str) -> Parsed<Self> {
        match self.peek(0) {
            Some(TokenTree::Group(group)) if group.delimiter() == delimiter => {
                let inside = Self::of(group);
                self.next();
                Ok(inside)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// The whole number that comes next.
    pub(crate) fn int(&mut self, what: &str) -> Parsed<i64> {
        match self.peek(0) {
            Some(TokenTree::Literal(literal)) => {
                let value = int(literal)?;
                self.next();
                Ok(value)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Requires that nothing is left.
    pub(crate) fn end(&self, what: &str) -> Parsed<()> {
        if self.is_empty() { Ok(()) } else { Err(self.expected(what)) }
    }

    /// Skips to the next position where this holds, or the end.
    pub(crate) fn skip_to(&mut self, ends: impl Fn(&Self) -> bool) {
        while !self.is_empty() && !ends(self) {
            self.next();
        }
    }

    /// Cuts the tokens off at the next position where this holds.
    pub(crate) fn cut_at(&mut self, ends: impl Fn(&Self) -> bool) {
        let mut end = self.clone();
        end.skip_to(ends);
        self.close = end.span();
        self.tokens = self.tokens.get(..end.at).unwrap_or_default().into();
    }

    /// The error that something else was expected here.
    pub(crate) fn expected(&self, what: &str) -> Fault {
        Fault::new(self.span(), format!("expected {what}, found {}", self.found()))
    }

    fn found(&self) -> String {
        match self.peek(0) {
            None => "the end".to_owned(),
            Some(TokenTree::Group(group)) => match group.delimiter() {
                Delimiter::Brace => "`{`".to_owned(),
                Delimiter::Bracket => "`[`".to_owned(),
                _ => "`(`".to_owned(),
            },
            Some(TokenTree::Punct(first)) => {
                let mut sign = first.as_char().to_string();
                if first.spacing() == Spacing::Joint
                    && let Some(TokenTree::Punct(second)) = self.peek(1)
                {
                    sign.push(second.as_char());
                }
                format!("`{sign}`")
            }
            Some(token) => format!("`{token}`"),
        }
    }
}

/// Unwraps an invisible group from a user's macro: to its token if it is a single one, else as if
/// in parentheses.
fn plain(token: TokenTree) -> TokenTree {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let mut inside = group.stream().into_iter();
            match (inside.next(), inside.next()) {
                (Some(only), None) => plain(only),
                _ => {
                    let mut closed = Group::new(Delimiter::Parenthesis, group.stream());
                    closed.set_span(group.span());
                    TokenTree::Group(closed)
                }
            }
        }
        token => token,
    }
}

/// A literal as a whole number.
pub(crate) fn int(literal: &Literal) -> Parsed<i64> {
    let text = literal.to_string().replace('_', "");
    let digits = text.trim_end_matches("usize").trim_end_matches("i64");
    digits.parse().map_err(|_| {
        Fault::new(literal.span(), format!("expected a whole number, found `{literal}`"))
            .help("numbers of a plan are whole, written with digits, and fit into an i64")
    })
}
