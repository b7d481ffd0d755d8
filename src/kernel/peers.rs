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
use crate::{DType, Device, Element, LsaPointers, Result, Window, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// A device whose kernels may communicate for world `W`: its own.
#[diagnostic::on_unimplemented(
    message = "a kernel on `{Self}` cannot communicate for `{W}`",
    label = "the device communicator is of another device than the stream",
    note = "run it on `comm.stream()` of the communicator that made it, or on another stream of its device"
)]
pub trait CommunicatesFor<W: World>: Device<Backend = Back<W>> {}

impl<D: Device, W: World<Device = D>> CommunicatesFor<W> for D {}

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
pub struct Dev<'a, B: Backend>(&'a Arc<Shared<B>>);

/// A device communicator.
pub fn dev_comm<W: World>(dev: &DevComm<W>) -> Dev<'_, Back<W>> {
    Dev(&dev.shared)
}

/// A window among the arguments of a launch, beside the device communicator that reaches it.
#[allow(missing_debug_implementations, reason = "a part of a launch")]
pub struct Peers<'a, B: Backend> {
    parts: Parts<'a, B>,
    dev: &'a Arc<Shared<B>>,
    dev_key: &'a Key,
    name: &'static str,
    dtype: DType,
    write: bool,
}

/// A window whose part here a kernel does not write.
pub fn window<'a, T: Element, W: World, N: WindowOf<T, W>>(
    window: &'a N,
    dev: &'a DevComm<W>,
) -> Peers<'a, Back<W>> {
    peers::<T, W>(window.parts(), dev, false)
}

/// A window that a kernel writes, here or on peers.
pub fn window_mut<'a, T: Element, W: World, N: WindowOf<T, W>>(
    window: &'a mut N,
    dev: &'a DevComm<W>,
) -> Peers<'a, Back<W>> {
    peers::<T, W>(window.parts(), dev, true)
}

fn peers<'a, T: Element, W: World>(
    parts: Parts<'a, Back<W>>,
    dev: &'a DevComm<W>,
    write: bool,
) -> Peers<'a, Back<W>> {
    Peers { parts, dev: &dev.shared, dev_key: &dev.key, name: W::NAME, dtype: T::DTYPE, write }
}

/// A device communicator, held by a queue.
#[derive(Debug)]
pub struct HeldDev<B: Backend>(Arc<Shared<B>>);

impl<B: Backend> HeldArgument<B> for HeldDev<B> {
    fn show(&self) -> Shown<'_, B> {
        Shown::Comm(&self.0)
    }
}

impl<D: Device<Backend = B>, B: Backend> ArgumentOn<D> for Dev<'_, B> {
    type Held = HeldDev<B>;

    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
        self.0.on(stream).map(HeldDev)
    }

    fn used(&self) -> Option<(&Arc<Allocation<B>>, bool)> {
        Some((&self.0.allocation, false))
    }

    fn enter<'a>(&'a self, stream: &StreamAccess<'_, D>, alive: &mut Vec<Alive<'a>>) -> Result<()> {
        alive.push(self.0.enter(stream.core)?);
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

impl<D: Device<Backend = B>, B: Backend> ArgumentOn<D> for Peers<'_, B> {
    type Held = HeldWindow<B>;

    fn hold(&self, _: &StreamAccess<'_, D>) -> Result<Self::Held> {
        let Self { parts: Parts { allocation, id, lens, key }, dev, dev_key, name, dtype, write } =
            *self;
        key.is_of(dev_key, name)?;
        let (allocation, shared, len) = (allocation.clone(), dev.clone(), lens.own());
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
        if let Some(mirror) = dev.mirror() {
            let parts = mirror.parts(id).ok_or_else(|| dev.ended())?;
            let lens = (0..parts.len()).map(|rank| lens.of(rank)).collect();
            return Ok(held(0, parts, lens));
        }
        let handle = dev.window(id).ok_or_else(|| {
            let why = "its communicator went on without it".to_owned();
            Error::Stale(Box::new(Stale { what: "window", name, why }))
        })?;
        Ok(held(handle, Vec::new(), Vec::new()))
    }

    fn used(&self) -> Option<(&Arc<Allocation<B>>, bool)> {
        Some((self.parts.allocation, self.write))
    }
}
