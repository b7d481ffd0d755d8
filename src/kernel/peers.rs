//! Arguments by which a kernel reaches its peers: a device communicator, windows.

use std::sync::Arc;

use super::argument::{ArgumentOn, HeldArgument, Shown};
use crate::backend::{Backend, WindowId};
use crate::communicator::Key;
use crate::device_api::{Alive, DevComm, Shared};
use crate::error::{Error, Stale};
use crate::host::HostBackend;
use crate::memory::Allocation;
use crate::stream::StreamAccess;
use crate::window::Lens;
use crate::{DType, Device, Element, LsaPointers, OperandOn, Result, Window, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// A world whose communicators are on `D`.
#[diagnostic::on_unimplemented(
    message = "a kernel on `{D}` cannot communicate for `{Self}`",
    label = "the device communicator is of another device than the stream",
    note = "run it on `comm.stream()` of the communicator that made them, or on another stream of its device"
)]
pub trait WorldOn<D: Device>: World<Device = D> {}

#[diagnostic::do_not_recommend]
impl<D: Device, W: World<Device = D>> WorldOn<D> for W {}

/// A window of world `W` whose elements are `T`, which peers reach by addresses.
#[diagnostic::on_unimplemented(
    message = "the kernel takes a window of `{T}` on `{W}`, and this is `{Self}`",
    label = "no window of the device communicator's world that kernels reach by addresses",
    note = "`comm.window(len)` makes one; its communicator is that of the kernel's `&DevComm`"
)]
pub trait WindowOf<T, W: World> {
    /// Where it is, how long, and in whose table.
    #[doc(hidden)]
    fn parts(&self) -> Parts<'_, Back<W>>;
}

/// What a launch needs of a window.
#[allow(missing_debug_implementations, reason = "a part of a launch")]
pub struct Parts<'w, B: Backend> {
    allocation: &'w Arc<Allocation<B>>,
    id: WindowId,
    lens: &'w Lens,
    key: &'w Key,
}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World, K: LsaPointers> WindowOf<T, W> for Window<T, W, K> {
    fn parts(&self) -> Parts<'_, Back<W>> {
        let (allocation, id) = self.registered();
        Parts { allocation, id, lens: self.lens(), key: &self.key }
    }
}

/// A device communicator among the arguments of a launch.
#[derive(Debug)]
pub struct Dev<'a, W: World>(&'a DevComm<W>);

/// A device communicator.
pub fn dev_comm<W: World>(dev: &DevComm<W>) -> Dev<'_, W> {
    Dev(dev)
}

/// A window among the arguments of a launch, beside the device communicator that reaches it.
#[allow(missing_debug_implementations, reason = "a part of a launch")]
pub struct Peers<'a, W: World> {
    parts: Parts<'a, Back<W>>,
    dev: &'a DevComm<W>,
    dtype: DType,
    write: bool,
}

/// A window whose part here a kernel does not write.
pub fn window<'a, T: Element, W: World, N: WindowOf<T, W>>(
    window: &'a N,
    dev: &'a DevComm<W>,
) -> Peers<'a, W> {
    Peers { parts: window.parts(), dev, dtype: T::DTYPE, write: false }
}

/// A window that a kernel writes, here or on peers.
pub fn window_mut<'a, T: Element, W: World, N: WindowOf<T, W>>(
    window: &'a mut N,
    dev: &'a DevComm<W>,
) -> Peers<'a, W> {
    Peers { parts: window.parts(), dev, dtype: T::DTYPE, write: true }
}

/// A device communicator, held by a queue.
#[derive(Debug)]
pub struct HeldDev<B: Backend>(Arc<Shared<B>>);

impl<B: Backend> HeldArgument<B> for HeldDev<B> {
    fn show(&self) -> Shown<'_, B> {
        Shown::Comm(&self.0)
    }
}

impl<D: Device, W: WorldOn<D>> ArgumentOn<D> for Dev<'_, W> {
    type Held = HeldDev<D::Backend>;

    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
        OperandOn::hold(&self.0, stream).map(HeldDev)
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        Some((&self.0.shared.allocation, false))
    }

    fn enter<'a>(&'a self, stream: &StreamAccess<'_, D>, alive: &mut Vec<Alive<'a>>) -> Result<()> {
        alive.push(self.0.shared.enter(stream.core)?);
        Ok(())
    }
}

/// A window, held by a queue.
pub struct HeldWindow<B: Backend> {
    allocation: Arc<Allocation<B>>,
    pub(crate) shared: Arc<Shared<B>>,
    pub(crate) len: usize,
    pub(crate) dtype: DType,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "for kernels on GPUs"))]
    pub(crate) write: bool,
    /// The library's handle, where there is one.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "for kernels on GPUs"))]
    pub(crate) handle: u64,
    /// On the host: every rank's part, and how many elements each has.
    pub(crate) parts: Vec<Arc<Allocation<HostBackend>>>,
    pub(crate) lens: Vec<usize>,
}

impl<B: Backend> std::fmt::Debug for HeldWindow<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a window of {} {} at {:?}", self.len, self.dtype, Arc::as_ptr(&self.allocation))
    }
}

impl<B: Backend> HeldArgument<B> for HeldWindow<B> {
    fn show(&self) -> Shown<'_, B> {
        Shown::Windowed(self)
    }
}

impl<D: Device, W: WorldOn<D>> ArgumentOn<D> for Peers<'_, W> {
    type Held = HeldWindow<D::Backend>;

    fn hold(&self, _: &StreamAccess<'_, D>) -> Result<Self::Held> {
        let Self { parts: Parts { allocation, id, lens, key }, dev, dtype, write } = *self;
        key.is_of(&dev.key, W::NAME)?;
        let (allocation, shared, len) = (allocation.clone(), dev.shared.clone(), lens.own());
        let held = |handle, parts, lens| HeldWindow {
            allocation,
            shared,
            len,
            dtype,
            write,
            handle,
            parts,
            lens,
        };
        if let Some(mirror) = dev.shared.mirror() {
            let parts = mirror.parts(id).ok_or_else(|| dev.shared.ended())?;
            let lens = (0..parts.len()).map(|rank| lens.of(rank)).collect();
            return Ok(held(0, parts, lens));
        }
        let handle = dev.shared.window(id).ok_or_else(|| {
            let why = "its communicator went on without it".to_owned();
            Error::Stale(Box::new(Stale { what: "window", name: W::NAME, why }))
        })?;
        Ok(held(handle, Vec::new(), Vec::new()))
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        Some((self.parts.allocation, self.write))
    }
}
