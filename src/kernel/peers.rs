//! Arguments through which a kernel reaches its peers: a device communicator, its barriers,
//! windows.

use std::sync::Arc;

use super::argument::ArgumentOn;
use crate::backend::Backend;
use crate::communicator::Key;
use crate::compute::{Argument, HeldWindow, Reach, Shown};
use crate::device_api::{Barrier, DevComm};
use crate::device_comm::{Entered, Shared};
use crate::error::{BadKernel, KernelFault};
use crate::memory::{Allocation, Extent};
use crate::stream::StreamAccess;
use crate::window::Named;
use crate::{DType, Device, Element, LsaPointers, Result, Window, WindowSlice, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// A device whose kernels can communicate for world `W`: that world's own.
#[diagnostic::on_unimplemented(
    message = "a kernel on `{Self}` cannot communicate for `{W}`",
    label = "the device communicator is of another device than the stream",
    note = "run it on `comm.stream()` of the communicator that made it, or on another stream of its device"
)]
pub trait CommunicatesFor<W: World>: Device<Backend = Back<W>> {}

impl<D: Device, W: World<Device = D>> CommunicatesFor<W> for D {}

/// A window of world `W` with elements `T` that peers reach by address.
#[diagnostic::on_unimplemented(
    message = "the kernel takes a window of `{T}` on `{W}`, and this is `{Self}`",
    label = "not such a window",
    note = "`comm.window(len)` makes one, on the communicator of the kernel's `&DevComm`",
    note = "a kernel that takes a part of one declares `&WindowSlice<f32>`, one that takes this rank's memory alone `&[f32]`"
)]
pub trait WindowOf<T, W: World>: PartOf<T, W> {}

/// A window of world `W` with elements `T`, or part of one.
#[diagnostic::on_unimplemented(
    message = "the kernel takes a part of a window of `{T}` on `{W}`, and this is `{Self}`",
    label = "neither such a window, nor a part of one",
    note = "`window.slice(a..b)` is one, of a window on the communicator of the kernel's `&DevComm`"
)]
pub trait PartOf<T, W: World> {
    /// The window and the range of elements.
    #[doc(hidden)]
    fn part(&self) -> WindowRange<'_, Back<W>>;
}

/// The details of a window that a launch needs.
#[allow(missing_debug_implementations, reason = "a part of a launch")]
pub struct WindowRange<'w, B: Backend> {
    allocation: &'w Arc<Allocation<B>>,
    /// The range of elements, the same in every rank's part.
    extent: Extent,
    named: &'w Named,
}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World, K: LsaPointers> WindowOf<T, W> for Window<T, W, K> {}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World, K: LsaPointers> PartOf<T, W> for Window<T, W, K> {
    fn part(&self) -> WindowRange<'_, Back<W>> {
        let (allocation, extent) = (self.registered().0, Extent::whole(self.len()));
        WindowRange { allocation, extent, named: &self.named }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World, K: LsaPointers> PartOf<T, W> for WindowSlice<'_, T, W, K> {
    fn part(&self) -> WindowRange<'_, Back<W>> {
        let (allocation, extent, named) = self.registered();
        WindowRange { allocation, extent, named }
    }
}

/// A device communicator among the arguments of a launch.
#[derive(Debug)]
pub struct Dev<'a, B: Backend>(&'a Arc<Shared<B>>);

/// Passes a device communicator.
pub fn dev_comm<W: World>(dev: &DevComm<W>) -> Dev<'_, Back<W>> {
    Dev(&dev.shared)
}

/// A window among the arguments of a launch, with the device communicator that reaches it.
#[allow(missing_debug_implementations, reason = "a part of a launch")]
pub struct Peers<'a, B: Backend> {
    part: WindowRange<'a, B>,
    dev: &'a Arc<Shared<B>>,
    dev_key: &'a Key,
    name: &'static str,
    dtype: DType,
    reach: Reach,
}

/// Passes a window whose local part the kernel does not write.
pub fn window<'a, T: Element, W: World, N: WindowOf<T, W>>(
    window: &'a N,
    dev: &'a DevComm<W>,
) -> Peers<'a, Back<W>> {
    peers::<T, W>(window.part(), dev, Reach::Whole)
}

/// Passes part of a window, which the kernel does not write.
pub fn window_slice<'a, T: Element, W: World, N: PartOf<T, W>>(
    slice: &'a N,
    dev: &'a DevComm<W>,
) -> Peers<'a, Back<W>> {
    peers::<T, W>(slice.part(), dev, Reach::Part)
}

/// Passes a window that the kernel writes, here or on peers.
pub fn window_mut<'a, T: Element, W: World, N: WindowOf<T, W>>(
    window: &'a mut N,
    dev: &'a DevComm<W>,
) -> Peers<'a, Back<W>> {
    peers::<T, W>(window.part(), dev, Reach::Written)
}

fn peers<'a, T: Element, W: World>(
    part: WindowRange<'a, Back<W>>,
    dev: &'a DevComm<W>,
    reach: Reach,
) -> Peers<'a, Back<W>> {
    Peers { part, dev: &dev.shared, dev_key: &dev.key, name: W::NAME, dtype: T::DTYPE, reach }
}

/// A barrier among the arguments of a launch, with its device communicator.
#[derive(Debug)]
pub struct BarrierIn<'a, B: Backend> {
    index: u32,
    of: &'a Arc<Shared<B>>,
    dev: &'a Arc<Shared<B>>,
    kernel: &'static str,
}

/// A barrier of world `W` among the ranks that reach each other's memory.
#[diagnostic::on_unimplemented(
    message = "the kernel waits at a barrier of its `&DevComm` on `{W}`, and this is `{Self}`",
    label = "no barrier of that device communicator among ranks that reach each other's memory",
    note = "`dev.lsa_barrier(n)?` is one, and is given by value"
)]
pub trait BarrierOf<'a, W: World> {
    /// The barrier.
    #[doc(hidden)]
    fn barrier(self) -> Barrier<'a, W>;
}

#[diagnostic::do_not_recommend]
impl<'a, W: World> BarrierOf<'a, W> for Barrier<'a, W> {
    fn barrier(self) -> Self {
        self
    }
}

/// Passes a barrier among the ranks that reach each other's memory.
pub fn barrier<'a, W: World>(
    barrier: impl BarrierOf<'a, W>,
    dev: &'a DevComm<W>,
    kernel: &'static str,
) -> BarrierIn<'a, Back<W>> {
    let barrier = barrier.barrier();
    BarrierIn { index: barrier.index(), of: &barrier.dev().shared, dev: &dev.shared, kernel }
}

/// A barrier held by a queue.
#[derive(Debug)]
pub struct HeldBarrier<B: Backend> {
    dev: Arc<Shared<B>>,
    index: u32,
}

impl<B: Backend> Argument<B> for HeldBarrier<B> {
    type Held = Self;

    fn show(&self) -> Shown<'_, B> {
        Shown::Barrier { dev: &self.dev, index: &self.index }
    }

    fn hold(self) -> Self {
        self
    }
}

impl<D: Device<Backend = B>, B: Backend> ArgumentOn<D> for BarrierIn<'_, B> {
    type Checked<'a>
        = HeldBarrier<B>
    where
        Self: 'a;

    fn check(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Checked<'_>> {
        let Self { index, of, dev, kernel } = *self;
        if Arc::ptr_eq(of, dev) {
            return Ok(HeldBarrier { dev: dev.clone(), index });
        }
        let fault = KernelFault::OtherBarrier { index };
        Err(BadKernel { kernel, fault, site: stream.site }.into())
    }

    fn used(&self) -> Option<(&Arc<Allocation<B>>, bool)> {
        None
    }
}

/// A device communicator held by a queue.
#[derive(Debug)]
pub struct HeldDev<B: Backend>(Arc<Shared<B>>);

impl<B: Backend> Argument<B> for HeldDev<B> {
    type Held = Self;

    fn show(&self) -> Shown<'_, B> {
        Shown::Comm(&self.0)
    }

    fn hold(self) -> Self {
        self
    }
}

impl<B: Backend> Argument<B> for Dev<'_, B> {
    type Held = HeldDev<B>;

    fn show(&self) -> Shown<'_, B> {
        Shown::Comm(self.0)
    }

    fn hold(self) -> HeldDev<B> {
        HeldDev(self.0.clone())
    }
}

impl<D: Device<Backend = B>, B: Backend> ArgumentOn<D> for Dev<'_, B> {
    type Checked<'a>
        = Dev<'a, B>
    where
        Self: 'a;

    fn check(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Checked<'_>> {
        self.0.is_on(stream.core, D::KIND, stream.site)?;
        Ok(Dev(self.0))
    }

    fn used(&self) -> Option<(&Arc<Allocation<B>>, bool)> {
        None
    }

    fn enter<'a>(
        &'a self,
        stream: &StreamAccess<'a, D>,
        entered: &mut Entered<'a, B>,
    ) -> Result<()> {
        self.0.enter(stream.core, stream.site, entered)
    }
}

impl<D: Device<Backend = B>, B: Backend> ArgumentOn<D> for Peers<'_, B> {
    type Checked<'a>
        = HeldWindow<B>
    where
        Self: 'a;

    fn check(&self, _: &StreamAccess<'_, D>) -> Result<Self::Checked<'_>> {
        let Self { part, dev, dev_key, name, dtype, reach } = self;
        let Named { key, id, lens } = part.named;
        key.is_of(dev_key, name)?;
        let (start, len) = part.extent.checked()?;
        let (allocation, shared, id) = (part.allocation.clone(), Arc::clone(dev), *id);
        let (dtype, reach) = (*dtype, *reach);
        let peers = B::peers(dev, id, &|rank| lens.of(rank), name)?;
        Ok(HeldWindow { allocation, shared, start, len, reach, dtype, peers })
    }

    fn used(&self) -> Option<(&Arc<Allocation<B>>, bool)> {
        Some((self.part.allocation, self.reach == Reach::Written))
    }
}
