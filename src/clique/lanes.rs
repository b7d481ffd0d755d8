//! Per-rank values, handed out rank by rank under that rank's device type.

use std::slice;

use super::{LaneOp, LaneWindow, PerRank};
use crate::{
    Blocks, Buffer, DeviceFamily, Element, Numeric, PreMulSum, SignalSlot, Signals, Slice,
    SliceMut, Splits, Window, WindowKind, World,
};

/// What [`Clique::each`](super::Clique::each) and [`Clique::group`](super::Clique::group) hand out:
/// `&PerRank<..>`, `&mut PerRank<..>`, and tuples of up to four.
///
/// See the example of [`Clique::group`](super::Clique::group).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be handed out rank by rank",
    label = "expected `&per_rank`, `&mut per_rank`, or a tuple of them",
    note = "a `PerRank` comes from `clique.alloc(len)` or `clique.per_rank(..)`"
)]
pub trait Lanes<'e, D: DeviceFamily> {
    /// One rank's part.
    type At<'id>;

    /// The parts not handed out yet.
    #[doc(hidden)]
    type Parts;

    /// The clique that they belong to.
    #[doc(hidden)]
    fn clique(&self) -> Option<u64>;

    #[doc(hidden)]
    fn parts(self) -> Self::Parts;

    #[doc(hidden)]
    fn next<'id>(parts: &mut Self::Parts) -> Option<Self::At<'id>>;
}

/// A rank's value that a lane accepts: a buffer, a window, an operator, a signal, declared lengths,
/// or a vector.
///
/// See the example of [`LaneWindow`](super::LaneWindow).
#[diagnostic::on_unimplemented(
    message = "a `{Self}` is nothing that one rank of a clique is handed",
    label = "expected a buffer, a window, an operator, a signal, declared lengths or a vector"
)]
pub trait OfRank<D: DeviceFamily>: Sized {
    /// One rank's part of `&PerRank`.
    type Shared<'e, 'id>
    where
        Self: 'e;

    /// One rank's part of `&mut PerRank`.
    type Exclusive<'e, 'id>
    where
        Self: 'e;

    #[doc(hidden)]
    fn shared<'id>(&self) -> Self::Shared<'_, 'id>;

    #[doc(hidden)]
    fn exclusive<'id>(&mut self) -> Self::Exclusive<'_, 'id>;
}

impl<'e, D: DeviceFamily, X: OfRank<D>> Lanes<'e, D> for &'e PerRank<X> {
    type At<'id> = X::Shared<'e, 'id>;
    type Parts = slice::Iter<'e, X>;

    fn clique(&self) -> Option<u64> {
        Some(PerRank::clique(self))
    }

    fn parts(self) -> Self::Parts {
        self.items().iter()
    }

    fn next<'id>(parts: &mut Self::Parts) -> Option<Self::At<'id>> {
        parts.next().map(X::shared)
    }
}

impl<'e, D: DeviceFamily, X: OfRank<D>> Lanes<'e, D> for &'e mut PerRank<X> {
    type At<'id> = X::Exclusive<'e, 'id>;
    type Parts = slice::IterMut<'e, X>;

    fn clique(&self) -> Option<u64> {
        Some(PerRank::clique(self))
    }

    fn parts(self) -> Self::Parts {
        self.items_mut().iter_mut()
    }

    fn next<'id>(parts: &mut Self::Parts) -> Option<Self::At<'id>> {
        parts.next().map(X::exclusive)
    }
}

impl<T: Element, D: DeviceFamily, M> OfRank<D> for Buffer<T, D, M> {
    type Shared<'e, 'id>
        = Slice<'e, T, D::Scoped<'id>>
    where
        Self: 'e;
    type Exclusive<'e, 'id>
        = SliceMut<'e, T, D::Scoped<'id>>
    where
        Self: 'e;

    fn shared<'id>(&self) -> Self::Shared<'_, 'id> {
        self.all().on()
    }

    fn exclusive<'id>(&mut self) -> Self::Exclusive<'_, 'id> {
        self.all_mut().on()
    }
}

impl<T: Element, D: DeviceFamily, W: World<Device = D>, K: WindowKind> OfRank<D>
    for Window<T, W, K>
{
    type Shared<'e, 'id>
        = LaneWindow<'e, 'id, T, W, K>
    where
        Self: 'e;
    type Exclusive<'e, 'id>
        = SliceMut<'e, T, D::Scoped<'id>>
    where
        Self: 'e;

    fn shared<'id>(&self) -> Self::Shared<'_, 'id> {
        LaneWindow::new(self)
    }

    fn exclusive<'id>(&mut self) -> Self::Exclusive<'_, 'id> {
        self.local_mut().on()
    }
}

impl<T: Numeric, D: DeviceFamily, W: World<Device = D>> OfRank<D> for PreMulSum<T, W> {
    type Shared<'e, 'id>
        = LaneOp<'e, 'id, T, W>
    where
        Self: 'e;
    type Exclusive<'e, 'id>
        = LaneOp<'e, 'id, T, W>
    where
        Self: 'e;

    fn shared<'id>(&self) -> Self::Shared<'_, 'id> {
        LaneOp::new(self)
    }

    fn exclusive<'id>(&mut self) -> Self::Exclusive<'_, 'id> {
        LaneOp::new(self)
    }
}

macro_rules! as_they_are {
    ($($value:ty $(, $element:ident)?;)+) => { $(
        impl<D: DeviceFamily $(, $element)?> OfRank<D> for $value {
            type Shared<'e, 'id>
                = &'e Self
            where
                Self: 'e;
            type Exclusive<'e, 'id>
                = &'e mut Self
            where
                Self: 'e;

            fn shared<'id>(&self) -> Self::Shared<'_, 'id> {
                self
            }

            fn exclusive<'id>(&mut self) -> Self::Exclusive<'_, 'id> {
                self
            }
        }
    )+ };
}

as_they_are! {
    SignalSlot;
    Signals;
    Blocks;
    Splits;
    Vec<T>, T;
}

macro_rules! tuples {
    ($(($($lane:ident $index:tt),+)),+ $(,)?) => { $(
        impl<'e, D: DeviceFamily, $($lane: Lanes<'e, D>),+> Lanes<'e, D> for ($($lane,)+) {
            type At<'id> = ($($lane::At<'id>,)+);
            type Parts = ($($lane::Parts,)+);

            fn clique(&self) -> Option<u64> {
                let ids = [$(self.$index.clique()),+];
                let first = ids[0];
                // No clique has the id 0, so parts of two different cliques match none.
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
