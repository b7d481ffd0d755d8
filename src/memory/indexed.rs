//! Why `x[0..4]` is not a part of a buffer: the sentence that the compiler tells.

use std::ops::Index;

use crate::{Buffer, Device};

/// Says how a part of a buffer is named. Never applies.
#[diagnostic::on_unimplemented(
    message = "the elements of `{Self}` are on a device, and have no places on the host",
    label = "this cannot be indexed",
    note = "a part of it is `x.slice(a..b)`, or `x.slice_mut(a..b)` to be written; its values are `x.to_vec()?`"
)]
pub trait HasPlaces<I> {
    #[doc(hidden)]
    fn never(&self) -> !;
}

// One for all indices: of several the compiler would say that none applies, and not why.
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
