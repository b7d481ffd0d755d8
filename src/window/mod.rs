//! Windows: memory that a communicator's ranks registered together, so that peers can write it.
//!
//! A [`Window`] owns its memory and borrows nothing; it works only with the communicator that made
//! it. It is an operand like a buffer (`&window`, `&mut window`, views), and a place for puts: the
//! source is a slice of a window, the target is *this rank's own* handle of a window, and the peer
//! is a rank.
//!
//! Not in the types: lengths and offsets, which are checked in full, on both sides, before anything
//! is sent; and which of two communicators of one name made it, which is a stamp.

mod also;
mod close;
mod kernels;
mod kind;
mod query;
mod register;
mod view;

pub use also::SharedWindow;
pub use kind::{
    CftCounted, Flagged, GinOnly, LocalOnly, LsaPointers, RmaSource, RmaTarget, Symmetric,
    SymmetricStrict, WindowKind,
};
pub use query::Registration;

pub use crate::backend::{Endpoint, EndpointOf, Team, TeamOf};
pub use view::{PutSource, WindowPlace, WindowSlice};

use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use crate::backend::WindowId;
use crate::communicator::{Key, SharedLens};
use crate::derived::debug;
use crate::memory::{Allocation, Extent};
use crate::one_thread::{SeveralThreads, ShareWindow};
use crate::{AsRank, Device, Element, Result, Slice, SliceMut, World};

/// `len` elements of type `T` that the ranks of world `W` registered together as kind `K`.
///
/// Made by [`Communicator::window`](crate::Communicator::window) or
/// [`register_window`](crate::Communicator::register_window); [`close`](crate::Communicator::close)
/// returns the memory. A dropped window stays registered until its communicator ends, because
/// deregistering is collective. `Send`, not `Sync`.
///
/// ```
/// use typed_nccl::{Host, Result, Window, spmd};
///
/// # fn main() -> Result<()> {
/// spmd::<Host>(2, |place| {
///     let mut comm = place.init()?;
///     let mut mine: Window<f32, _> = comm.window(4)?;
///     let theirs = comm.window(4)?;
///     mine.copy_from(&[comm.rank().index() as f32; 4])?;
///     let peer = comm.ring(1);
///     comm.put_signal(mine.slice(0..2), peer, theirs.at(2))?;
///     comm.wait_signal(peer)?;
///     let from = peer.index() as f32;
///     assert_eq!(theirs.to_vec()?, [0.0, 0.0, from, from]);
///     let memory = comm.close(theirs)?; // a buffer again
///     assert_eq!(memory.len(), 4);
///     comm.finish()
/// })
/// # }
/// ```
pub struct Window<T, W: World, K = Symmetric> {
    allocation: Arc<Allocation<<W::Device as Device>::Backend>>,
    pub(crate) named: Named,
    types: PhantomData<fn() -> (T, W, K)>,
}

/// Identifies the window, with the lengths of its parts.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) key: Key,
    pub(crate) id: WindowId,
    pub(crate) lens: Lens,
}

// SAFETY: never applies: nothing implements `ShareWindow`, and no other crate can.
unsafe impl<T, W: World, K> Sync for Window<T, W, K> where SeveralThreads: ShareWindow<Self> {}

/// How many elements each rank's part has.
#[derive(Clone, Debug)]
pub(crate) enum Lens {
    Even(usize),
    Uneven { own: usize, all: SharedLens },
}

impl Lens {
    pub(crate) fn own(&self) -> usize {
        match self {
            Self::Even(len) => *len,
            Self::Uneven { own, .. } => *own,
        }
    }

    /// The length on the rank of this number.
    pub(crate) fn of(&self, number: usize) -> usize {
        match self {
            Self::Even(len) => *len,
            Self::Uneven { all, .. } => all.get().1.get(number).copied().unwrap_or(0),
        }
    }
}

impl<T: Element, W: World, K: WindowKind> Window<T, W, K> {
    /// How many elements this rank's part has.
    pub fn len(&self) -> usize {
        self.named.lens.own()
    }

    /// Whether this rank's part has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many elements `rank`'s part has. Where the parts differ, 0 for a rank that does not
    /// exist or is lost.
    pub fn len_at(&self, rank: impl AsRank) -> usize {
        match &self.named.lens {
            Lens::Even(len) => *len,
            Lens::Uneven { all, .. } => {
                let (generation, lens) = all.get();
                generation.number(rank, lens.len()).map_or(0, |number| lens[number])
            }
        }
    }

    /// A view of `range` of this rank's part: a source for puts, and an operand like any other. A
    /// range past the end is refused by the operation that uses it.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> WindowSlice<'_, T, W, K> {
        WindowSlice::new(&self.named, self.local().slice(range))
    }

    /// The place `offset` elements into a window: the target of a put, on the peer that it names.
    pub fn at(&self, offset: usize) -> WindowPlace<'_, T, W, K> {
        WindowPlace::new(&self.named, offset)
    }

    /// A shared view of this rank's part.
    pub fn local(&self) -> Slice<'_, T, W::Device> {
        Slice::new(&self.allocation, Extent::whole(self.len()))
    }

    /// Takes the window apart: its memory, and its entry, which stays in the table while it lives.
    pub(crate) fn into_registered(
        self,
    ) -> (Arc<Allocation<<W::Device as Device>::Backend>>, Named) {
        (self.allocation, self.named)
    }

    /// This rank's part, with the window's number.
    pub(crate) fn registered(
        &self,
    ) -> (&Arc<Allocation<<W::Device as Device>::Backend>>, WindowId) {
        (&self.allocation, self.named.id)
    }

    /// Whether every rank's part has this length.
    pub(crate) fn is_even(&self) -> bool {
        match &self.named.lens {
            Lens::Even(_) => true,
            Lens::Uneven { own, all } => all.get().1.iter().all(|len| len == own),
        }
    }

    /// An exclusive view of this rank's part.
    pub fn local_mut(&mut self) -> SliceMut<'_, T, W::Device> {
        SliceMut::new(&self.allocation, Extent::whole(self.len()))
    }

    /// An exclusive view of `range` of this rank's part.
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> SliceMut<'_, T, W::Device> {
        self.local_mut().into_slice(range)
    }

    /// Copies this rank's part to the host; see [`Buffer::to_vec`](crate::Buffer::to_vec).
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.local().to_vec()
    }

    /// Overwrites this rank's part; see [`Buffer::copy_from`](crate::Buffer::copy_from).
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn copy_from(&mut self, values: &[T]) -> Result<()> {
        self.local_mut().copy_from(values)
    }
}

debug!(
    [T: Element, W: World, K: WindowKind] Window<T, W, K>,
    self => "Window #{} of {} {}, {}, on {}", self.named.id, self.len(), T::DTYPE, K::NAME, W::NAME
);

#[cfg(test)]
mod tests {
    use static_assertions::{assert_impl_all, assert_not_impl_any};

    use super::{LocalOnly, Window, WindowPlace, WindowSlice};
    use crate::{Host, Symmetric};

    // A window moves between threads with its communicator; its views stay on one.
    assert_impl_all!(Window<f32, Host>: Send);
    assert_impl_all!(Window<f32, Host, LocalOnly>: Send);
    assert_not_impl_any!(Window<f32, Host>: Sync);
    assert_not_impl_any!(WindowSlice<'static, f32, Host, Symmetric>: Send, Sync);
    assert_not_impl_any!(WindowPlace<'static, f32, Host, Symmetric>: Send, Sync);
}
