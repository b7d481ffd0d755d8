//! Lanes: per-rank values handed out rank by rank, under that rank's device type.

use std::slice;

use super::PerRank;
use crate::{Buffer, DeviceFamily, Element, Slice, SliceMut};

/// What [`Clique::each`](super::Clique::each) and [`Clique::group`](super::Clique::group) hand out:
/// `&PerRank<Buffer<..>>`, `&mut PerRank<Buffer<..>>`, and tuples of up to four.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be handed out rank by rank",
    label = "expected `&per_rank`, `&mut per_rank`, or a tuple of them",
    note = "a `PerRank` comes from `clique.alloc(len)` or `clique.per_rank(..)`"
)]
pub trait Lanes<'e, D: DeviceFamily> {
    /// What one rank gets.
    type At<'id>;

    /// The parts not handed out yet.
    #[doc(hidden)]
    type Parts;

    /// Which clique they belong to.
    #[doc(hidden)]
    fn clique(&self) -> Option<u64>;

    #[doc(hidden)]
    fn parts(self) -> Self::Parts;

    #[doc(hidden)]
    fn next<'id>(parts: &mut Self::Parts) -> Option<Self::At<'id>>;
}

impl<'e, T: Element, D: DeviceFamily, M> Lanes<'e, D> for &'e PerRank<Buffer<T, D, M>> {
    type At<'id> = Slice<'e, T, D::Scoped<'id>>;
    type Parts = slice::Iter<'e, Buffer<T, D, M>>;

    fn clique(&self) -> Option<u64> {
        Some(PerRank::clique(self))
    }

    fn parts(self) -> Self::Parts {
        self.items().iter()
    }

    fn next<'id>(parts: &mut Self::Parts) -> Option<Self::At<'id>> {
        parts.next().map(|buffer| buffer.all().on())
    }
}

impl<'e, T: Element, D: DeviceFamily, M> Lanes<'e, D> for &'e mut PerRank<Buffer<T, D, M>> {
    type At<'id> = SliceMut<'e, T, D::Scoped<'id>>;
    type Parts = slice::IterMut<'e, Buffer<T, D, M>>;

    fn clique(&self) -> Option<u64> {
        Some(PerRank::clique(self))
    }

    fn parts(self) -> Self::Parts {
        self.items_mut().iter_mut()
    }

    fn next<'id>(parts: &mut Self::Parts) -> Option<Self::At<'id>> {
        parts.next().map(|buffer| buffer.all_mut().on())
    }
}

macro_rules! tuples {
    ($(($($lane:ident $index:tt),+)),+ $(,)?) => { $(
        impl<'e, D: DeviceFamily, $($lane: Lanes<'e, D>),+> Lanes<'e, D> for ($($lane,)+) {
            type At<'id> = ($($lane::At<'id>,)+);
            type Parts = ($($lane::Parts,)+);

            fn clique(&self) -> Option<u64> {
                let ids = [$(self.$index.clique()),+];
                let first = ids[0];
                // 0 is no clique's: parts of two cliques belong to none.
                if ids.iter().all(|id| *id == first) { first } else { Some(0) }
            }

            fn parts(self) -> Self::Parts {
                ($(self.$index.parts(),)+)
            }

            fn next<'id>(parts: &mut Self::Parts) -> Option<Self::At<'id>> {
                Some(($($lane::next(&mut parts.$index)?,)+))
            }
        }
    )+ };
}

tuples!((A 0), (A 0, B 1), (A 0, B 1, C 2), (A 0, B 1, C 2, E 3));
