//! The text of numbers, conditions, regions and peers, as [`Plan::show`](crate::ir::Plan::show) writes it.

mod peer;
mod term;

use std::borrow::Cow;

use super::names::Declared;
use crate::ir::names::{is_word_part, is_word_start};
use crate::ir::{BufferId, LoopId, MOST_PARTS, Region};

/// How many numbers all texts of a file may have. More than a plan may: the parts of a peer's text make a
/// distance, which has fewer.
pub(super) const BUDGET: usize = 4 * MOST_PARTS;

/// Where and why a text cannot be read.
pub(super) enum Fault {
    /// Something is wrong at a byte of the text.
    At(usize, String),
    /// A name is not declared: its kind, the name, which are.
    Name(&'static str, String, String),
}

type Read<T> = Result<T, Box<Fault>>;

/// One text, and how far it is read.
pub(super) struct Formula<'a> {
    declared: &'a Declared<'a>,
    /// The counters of the loops around it.
    scope: &'a [LoopId],
    text: &'a str,
    at: usize,
    /// How many numbers may still be read.
    budget: &'a mut usize,
}

impl<'a> Formula<'a> {
    pub(super) fn new(
        declared: &'a Declared<'a>,
        scope: &'a [LoopId],
        text: &'a str,
        budget: &'a mut usize,
    ) -> Self {
        Self { declared, scope, text, at: 0, budget }
    }

    /// A region: `u`, `u[h .. 2 * h]`, `g[i]`, `u.next[0 .. h]`.
    pub(super) fn region(mut self) -> Read<Region> {
        let Some(name) = self.name()? else { return self.fault("the name of a buffer expected") };
        let buffers = &self.declared.buffers;
        let Some(id) = buffers.id(&name) else {
            return Err(Box::new(Fault::Name(buffers.what, name.into_owned(), buffers.declared())));
        };
        let mut region = Region::all(BufferId(id));
        if self.take(".") {
            if self.name()?.as_deref() != Some("next") {
                return self.fault("`next` expected, the other copy of a buffer that has two");
            }
            region.next = true;
        }
        while self.take("[") {
            let first = self.number()?;
            if self.take("..") {
                region.range = Some((first, self.number()?));
                self.must("]")?;
                break;
            }
            self.must("]")?;
            if region.index.is_some() {
                return self
                    .fault("a range was expected in the second brackets, as in `g[i][0 .. h]`");
            }
            region.index = Some(first);
        }
        self.end()?;
        Ok(region)
    }

    /// That all of the text was read.
    fn end(&mut self) -> Read<()> {
        self.space();
        if self.rest().is_empty() { Ok(()) } else { self.fault("the end expected") }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Whether this comes next, after space; it is then behind us.
    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let is = self.rest().starts_with(sign);
        self.at += if is { sign.len() } else { 0 };
        is
    }

    fn must(&mut self, sign: &str) -> Read<()> {
        if self.take(sign) { Ok(()) } else { self.fault(format!("`{sign}` expected")) }
    }

    fn fault<T>(&self, what: impl Into<String>) -> Read<T> {
        Err(Box::new(Fault::At(self.at, what.into())))
    }

    /// A word, or anything in backticks; `None` if neither comes next.
    fn name(&mut self) -> Read<Option<Cow<'a, str>>> {
        self.space();
        let rest = self.rest();
        if rest.starts_with(is_word_start) {
            let end = rest.find(|char| !is_word_part(char)).unwrap_or(rest.len());
            self.at += end;
            return Ok(Some(Cow::Borrowed(&rest[..end])));
        }
        if !rest.starts_with('`') {
            return Ok(None);
        }
        let mut name = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((at, char)) = chars.next() {
            match char {
                '`' => {
                    self.at += at + 1;
                    return Ok(Some(Cow::Owned(name)));
                }
                '\\' => name.extend(chars.next().map(|(_, char)| char)),
                char => name.push(char),
            }
        }
        self.fault("this name has no closing backtick")
    }
}
