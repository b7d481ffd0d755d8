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

/// What a loop counts through: a range with an end, or [`powers`].
#[diagnostic::on_unimplemented(
    message = "a loop does not count through `{Self}`",
    label = "not a range with an end",
    note = "write `..n` or `a..b`; both ends have one type, so a literal start is `Number::from(1)..n`"
)]
pub trait Count: Sized {
    /// Both ends, and the base if only its powers count.
    #[doc(hidden)]
    fn bounds(self) -> (Number, Number, Option<Number>);
}

/// The powers of a number that are below another one: `powers(2, n)` is 1, 2, 4 and so on.
pub fn powers(of: impl Into<Number>, below: impl Into<Number>) -> Powers {
    Powers { of: of.into(), below: below.into() }
}

/// See [`powers`].
#[derive(Clone, Debug)]
pub struct Powers {
    of: Number,
    below: Number,
}

impl Count for Powers {
    fn bounds(self) -> (Number, Number, Option<Number>) {
        (1.into(), self.below, Some(self.of))
    }
}

impl<E: Into<Number>> Span for Range<E> {
    fn ends(self) -> (Option<Number>, Option<Number>) {
        (Some(self.start.into()), Some(self.end.into()))
    }
}

impl<E: Into<Number>> Count for Range<E> {
    fn bounds(self) -> (Number, Number, Option<Number>) {
        (self.start.into(), self.end.into(), None)
    }
}

impl<E: Into<Number>> Span for RangeTo<E> {
    fn ends(self) -> (Option<Number>, Option<Number>) {
        (Some(0.into()), Some(self.end.into()))
    }
}

impl<E: Into<Number>> Count for RangeTo<E> {
    fn bounds(self) -> (Number, Number, Option<Number>) {
        (0.into(), self.end.into(), None)
    }
}

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
