//! One memory in windows of several communicators.

use std::sync::Arc;

use super::close::close;
use super::register::{Memory, register};
use super::{Symmetric, Window, WindowKind, WindowPlace, WindowSlice};
use crate::communicator::{CanEnqueue, State};
use crate::derived::debug;
use crate::error::{BadWindow, Error, Failed, Site, WindowFault};
use crate::{AsRank, Communicator, Element, Result, World, wait};

/// The memory of a window of another communicator, registered with that of world `W` too.
///
/// Made by [`Window::also_in`]. The window remains the memory's one owner: this is no operand and
/// gives no view of its own, so that one call cannot both read and write the memory. It serves puts
/// on `W`: their target is a place in it ([`at`](Self::at)), their source a slice of the window
/// that is [`of`](Self::of) it. Collectives of `W` on the window itself also use registered memory.
///
/// Each communicator keeps the memory until its own window is closed or it ends, so they can close,
/// end and be dropped in any order.
///
/// ```
/// # use typed_nccl::{Host, Seat, SharedWindow, World, tag};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// tag!(Pair);
/// let mut pair = comm.split::<Pair>(0, 0)?;
/// let mut window = comm.window::<f32>(4)?;
/// let shared: SharedWindow<f32, Pair<Host>> = window.also_in(&mut pair)?;
/// assert_eq!(shared.len_at(0), 4);
/// pair.put_signal(shared.of(&window)?.slice(0..2), 0, shared.at(2))?;
/// pair.wait_signal(0)?;
/// pair.close_shared(shared)?;
/// # pair.finish()?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct SharedWindow<T, W: World, K = Symmetric>(Window<T, W, K>);

impl<T: Element, W: World, K: WindowKind> Window<T, W, K> {
    /// Registers this window's memory with another communicator too, as symmetric:
    /// `let shared = grads.also_in(&mut tensor_parallel)?`. All ranks of that communicator call it,
    /// as for [`Communicator::window`], each with a window of its own of one length and type. NCCL:
    /// `ncclCommWindowRegister`, 2.27.
    ///
    /// # Errors
    /// As there. [`Error::BadWindow`] on a rank whose memory is already in a window of that
    /// communicator; the others are told.
    #[track_caller]
    pub fn also_in<V: World<Device = W::Device>, S: State + CanEnqueue>(
        &self,
        comm: &mut Communicator<V, S>,
    ) -> Result<SharedWindow<T, V>> {
        self.also_in_as(comm, Symmetric)
    }

    /// [`also_in`](Self::also_in) as a window of `kind`.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn also_in_as<V: World<Device = W::Device>, S: State + CanEnqueue, J: WindowKind>(
        &self,
        comm: &mut Communicator<V, S>,
        _kind: J,
    ) -> Result<SharedWindow<T, V, J>> {
        let site = Site::caller();
        let live = S::live_mut(&mut comm.body);
        let outcome = match live.core.resources.has_window_of(&self.allocation) {
            false => Ok(()),
            true => Err(bad_window(V::NAME, WindowFault::RegisteredTwice, site)),
        };
        let memory = Memory {
            allocation: Some(&self.allocation),
            len: self.len(),
            uneven: matches!(self.named.lens, super::Lens::Uneven { .. }),
        };
        register(live, memory, outcome, site).map(SharedWindow)
    }
}

impl<T: Element, W: World, K: WindowKind> SharedWindow<T, W, K> {
    /// How many elements this rank's part has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this rank's part has no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many elements `rank`'s part has; `rank` is a rank of `W`.
    pub fn len_at(&self, rank: impl AsRank) -> usize {
        self.0.len_at(rank)
    }

    /// The place `offset` elements into it: the target of a put on `W`, on the peer that it names.
    pub fn at(&self, offset: usize) -> WindowPlace<'_, T, W, K> {
        self.0.at(offset)
    }

    /// All of the window whose memory this is, as a source for puts on `W`:
    /// `tp.put_signal(shared.of(&grads)?.slice(0..n), right, shared.at(n))`.
    ///
    /// # Errors
    /// [`Error::BadWindow`]: the window has other memory.
    #[track_caller]
    pub fn of<'w, V: World<Device = W::Device>, J: WindowKind>(
        &'w self,
        window: &'w Window<T, V, J>,
    ) -> Result<WindowSlice<'w, T, W, K>> {
        match Arc::ptr_eq(&self.0.allocation, &window.allocation) {
            true => Ok(WindowSlice::new(&self.0.named, window.local())),
            false => Err(bad_window(W::NAME, WindowFault::OtherMemory, Site::caller())),
        }
    }
}

/// ## Windows of two communicators
impl<W: World, S: State> Communicator<W, S> {
    /// Deregisters memory of another communicator's window, which stays open. All ranks call it, as
    /// for [`close`](Self::close).
    ///
    /// # Errors
    /// As there. [`try_close_shared`](Self::try_close_shared) gives it back.
    #[track_caller]
    pub fn close_shared<T: Element, K: WindowKind>(
        &mut self,
        window: SharedWindow<T, W, K>,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        Ok(self.try_close_shared(window)?)
    }

    /// [`close_shared`](Self::close_shared) that gives it back when it fails.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn try_close_shared<T: Element, K: WindowKind>(
        &mut self,
        window: SharedWindow<T, W, K>,
    ) -> Result<(), Failed<SharedWindow<T, W, K>>>
    where
        S: CanEnqueue,
    {
        let (site, live) = (Site::caller(), S::live_mut(&mut self.body));
        let closed = match live.core.resources.is_lost(&window.0.named.key) {
            // It is not registered any more. Another thread may own the memory and record its own
            // uses.
            true => wait::allowed("close_shared", site),
            false => close(live, &window.0, site),
        };
        closed.map_err(|error| Failed { error, value: window })
    }
}

fn bad_window(name: &'static str, fault: WindowFault, site: Site) -> Error {
    BadWindow { name, fault, site }.into()
}

debug!(
    [T: Element, W: World, K: WindowKind] SharedWindow<T, W, K>,
    self => "{:?}, of another communicator's memory", self.0
);
