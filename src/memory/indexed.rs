//! The compiler's message for `x[0..4]`, which is not how to take part of a buffer.

use std::ops::Index;

use crate::{Buffer, Device};

/// Says how to name part of a buffer. Never applies.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be indexed: it is device memory",
    label = "no indexing here",
    note = "for a part, write `x.slice(a..b)`, or `x.slice_mut(a..b)` to write to it; for its values on the host, `x.to_vec()?`"
)]
pub trait HasPlaces<I> {
    #[doc(hidden)]
    fn never(&self) -> !;
}

// One impl for all index types: of several, the compiler would say that none applies, and not why.
#[doc(hidden)]
impl<T, D: Device, M, I> Index<I> for Buffer<T, D, M>
where
    Self: HasPlaces<I>,
{
    type Output = Self;

    fn index(&self, _: I) -> &Self {
        self.never()
    }
}
