//! The ranges that slices and loops take.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use super::number::Number;

/// A range of numbers: `..h`, `h..2 * h`, and for a slice also `m - h..` and `..`.
///
/// Both ends of a Rust range have one type: if one is a literal, write `Number::from(1)..n`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of numbers",
    label = "not a range of this plan's numbers",
    note = "write `..h` or `h..2 * h`; both ends have one type, so a literal start is `Number::from(1)..h`"
)]
pub trait Span {
    /// Both ends; `None` for an end that the buffer determines.
    #[doc(hidden)]
    fn ends(self) -> (Option<Number>, Option<Number>);
}

/// A range with an end, for loops.
#[diagnostic::on_unimplemented(
    message = "a loop does not count through `{Self}`",
    label = "not a range with an end",
    note = "write `..n` or `a..b`; both ends have one type, so a literal start is `Number::from(1)..n`"
)]
pub trait Count: Span + Sized {
    /// Both ends.
    #[doc(hidden)]
    fn bounds(self) -> (Number, Number) {
        let (from, to) = self.ends();
        (from.unwrap_or_else(|| 0.into()), to.unwrap_or_else(|| 0.into()))
    }
}

impl<E: Into<Number>> Span for Range<E> {
    fn ends(self) -> (Option<Number>, Option<Number>) {
        (Some(self.start.into()), Some(self.end.into()))
    }
}

impl<E: Into<Number>> Count for Range<E> {}

impl<E: Into<Number>> Span for RangeTo<E> {
    fn ends(self) -> (Option<Number>, Option<Number>) {
        (Some(0.into()), Some(self.end.into()))
    }
}

impl<E: Into<Number>> Count for RangeTo<E> {}

impl<E: Into<Number>> Span for RangeFrom<E> {
    fn ends(self) -> (Option<Number>, Option<Number>) {
        (Some(self.start.into()), None)
    }
}

impl Span for RangeFull {
    fn ends(self) -> (Option<Number>, Option<Number>) {
        (None, None)
    }
}
