//! Source areas: from one token of the user's to another.

use proc_macro2::Span;
use typed_nccl_plan::ir::Location;

/// An area from its first to its last token. Tokens are joined into one span only for an error,
/// since joining is expensive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) first: Span,
    pub(crate) last: Span,
}

impl Area {
    pub(crate) fn to(self, other: Self) -> Self {
        Self { first: self.first, last: other.last }
    }

    /// The line and the column of its first token, from 1.
    pub(crate) fn start(self) -> Location {
        let start = self.first.start();
        Location::new(number(start.line), number(start.column + 1))
    }
}

impl From<Span> for Area {
    fn from(span: Span) -> Self {
        Self { first: span, last: span }
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
