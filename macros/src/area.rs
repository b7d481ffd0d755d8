//! Places in the user's source: from one token to another.

use proc_macro2::Span;
use typed_nccl_plan::ir::Location;

/// From the first to the last token of something. Tokens are not joined into one span before an error
/// needs it, since that costs.
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
