//! JSON as a tree that knows where its values stand in the text.
//!
//! serde_json says whether the text is JSON, and reads its strings; its own tree has no places, and drops
//! all but the last of several equal keys.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::JsonError;

/// How deep lists and objects stand in each other at most: the deepest plan has about 140.
const MOST_DEPTH: usize = 192;

/// How many values a text may have: what bounds the memory that reading takes.
const MOST_VALUES: usize = 2_000_000;

/// A value, and where in the text it begins.
pub(super) struct Value<'t> {
    pub(super) begins: usize,
    pub(super) kind: Kind<'t>,
}

/// What a value is.
pub(super) enum Kind<'t> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(&'t str),
    Text(Cow<'t, str>),
    List(Vec<Value<'t>>),
    Object(Vec<(Cow<'t, str>, Value<'t>)>),
}

/// A text, and where its lines begin.
pub(super) struct Source<'t> {
    pub(super) text: &'t str,
    lines: Vec<usize>,
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let after =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, lines: [0].into_iter().chain(after).collect() }
    }

    /// Line and column of a byte, from 1.
    pub(super) fn place(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|begins| *begins <= at);
        (line, at - self.lines[line - 1] + 1)
    }

    fn not_json(&self, at: usize, what: impl Into<String>) -> JsonError {
        let (line, column) = self.place(at);
        JsonError::NotJson { line, column, what: what.into() }
    }

    /// The whole text as one value.
    pub(super) fn parse(&self) -> Result<Value<'t>, JsonError> {
        // This takes no stack however deep the text is.
        serde_json::from_str::<IgnoredAny>(self.text).map_err(|error| {
            let (line, column) = (error.line(), error.column().max(1));
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default().to_owned();
            JsonError::NotJson { line, column, what }
        })?;
        let mut parser = Parser { source: self, at: 0, depth: 0, values: 0 };
        parser.value()
    }
}

/// Reads text that is JSON; what could only go wrong if it were none is told nevertheless.
struct Parser<'s, 't> {
    source: &'s Source<'t>,
    at: usize,
    depth: usize,
    values: usize,
}

impl<'t> Parser<'_, 't> {
    fn rest(&self) -> &'t str {
        &self.source.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\n', '\r', '\t']).len();
    }

    /// Whether this sign comes next, after space; it is then behind us.
    fn take(&mut self, sign: char) -> bool {
        self.space();
        let is = self.rest().starts_with(sign);
        self.at += usize::from(is);
        is
    }

    fn must(&mut self, sign: char) -> Result<(), JsonError> {
        if self.take(sign) { Ok(()) } else { Err(self.wrong(format!("expected `{sign}`"))) }
    }

    fn wrong(&self, what: impl Into<String>) -> JsonError {
        self.source.not_json(self.at, what)
    }

    fn value(&mut self) -> Result<Value<'t>, JsonError> {
        self.space();
        let begins = self.at;
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(self.wrong(format!("more than {MOST_VALUES} values: split the plan")));
        }
        let kind = match self.rest().as_bytes().first() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'"') => Kind::Text(self.string()?),
            _ => {
                let rest = self.rest();
                let end = rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
                let word = &rest[..end];
                self.at += end;
                match word {
                    "null" => Kind::Null,
                    "true" => Kind::Bool(true),
                    "false" => Kind::Bool(false),
                    number => Kind::Number(number),
                }
            }
        };
        Ok(Value { begins, kind })
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Kind<'t>, JsonError>,
    ) -> Result<Kind<'t>, JsonError> {
        if self.depth == MOST_DEPTH {
            let what = format!("nested more than {MOST_DEPTH} deep: nest steps less deep");
            return Err(self.wrong(what));
        }
        self.depth += 1;
        self.at += 1;
        let kind = read(self)?;
        self.depth -= 1;
        Ok(kind)
    }

    fn list(&mut self) -> Result<Kind<'t>, JsonError> {
        let mut list = Vec::new();
        while !self.take(']') {
            if !list.is_empty() {
                self.must(',')?;
            }
            list.push(self.value()?);
        }
        Ok(Kind::List(list))
    }

    fn object(&mut self) -> Result<Kind<'t>, JsonError> {
        let mut entries = Vec::new();
        while !self.take('}') {
            if !entries.is_empty() {
                self.must(',')?;
                self.space();
            }
            let key = self.string()?;
            self.must(':')?;
            entries.push((key, self.value()?));
        }
        Ok(Kind::Object(entries))
    }

    fn string(&mut self) -> Result<Cow<'t, str>, JsonError> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let Some(end) = end else { return Err(self.wrong("expected a string")) };
        let (quoted, inner) = (&rest[..end + 2], &rest[1..=end]);
        let text = if inner.contains('\\') {
            // Half of a surrogate pair is the one thing that was not looked at yet.
            let text = serde_json::from_str(quoted);
            Cow::Owned(text.map_err(|_| self.wrong("this string has half of a surrogate pair"))?)
        } else {
            Cow::Borrowed(inner)
        };
        self.at += quoted.len();
        Ok(text)
    }
}
