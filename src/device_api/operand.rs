//! A device communicator as an operand of a launch, which uses it in stream order.

#[cfg(feature = "cuda")]
use std::fmt;
use std::sync::Arc;

use super::{DevComm, Entered, Shared};
#[cfg(feature = "cuda")]
use crate::Rank;
#[cfg(feature = "cuda")]
use crate::backend::Backend;
use crate::backend::{DeviceComms, Seen};
use crate::memory::Allocation;
use crate::stream::StreamAccess;
use crate::{Device, Operand, OperandOn, Operands, OperandsOn, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// A device communicator in a closure on a GPU, for passing it to a kernel by hand.
#[cfg(feature = "cuda")]
#[derive(Clone, Copy)]
pub struct DevCommView<'v> {
    rank: Rank,
    size: usize,
    bytes: &'v [u8],
}

#[cfg(feature = "cuda")]
impl<'v> DevCommView<'v> {
    pub(crate) fn new<B: Backend>(shared: &'v Shared<B>) -> Self {
        Self { rank: shared.rank, size: shared.size, bytes: shared.bytes() }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Its bytes, as a kernel takes it by value: see [`DevComm::bytes`].
    pub fn bytes(&self) -> &'v [u8] {
        self.bytes
    }
}

#[cfg(feature = "cuda")]
impl fmt::Debug for DevCommView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, size, bytes } = self;
        write!(f, "DevCommView of rank {rank} of {size}, {} bytes", bytes.len())
    }
}

impl<W: World> Operand for &DevComm<W> {
    type Backend = Back<W>;
    type View<'v> = <Back<W> as DeviceComms>::DevComm<'v>;
    type Held = Arc<Shared<Back<W>>>;

    fn seen<'v>(_: &'v Self::Held, _: &mut Vec<Seen<'v, Self::Backend>>) {}

    unsafe fn view<'v>(held: &'v Self::Held) -> Self::View<'v> {
        Back::<W>::view_of(held)
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device, W: World<Device = D>> OperandOn<D> for &DevComm<W> {
    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
        self.shared.is_on(stream)?;
        Ok(self.shared.clone())
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        None
    }

    fn enter<'a>(
        &'a self,
        stream: &StreamAccess<'a, D>,
        entered: &mut Entered<'a, D::Backend>,
    ) -> Result<()> {
        self.shared.enter(stream, entered)
    }

    fn announce(held: &Self::Held) {
        held.announce();
    }
}

impl<W: World> Operands for &DevComm<W> {
    type Views<'v> = <Self as Operand>::View<'v>;
    type Held = <Self as Operand>::Held;

    unsafe fn views<'v>(held: &'v Self::Held) -> Self::Views<'v> {
        Back::<W>::view_of(held)
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device, W: World<Device = D>> OperandsOn<D> for &DevComm<W> {
    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
        OperandOn::hold(self, stream)
    }

    fn used(
        &self,
        _: impl FnMut((&Arc<Allocation<D::Backend>>, bool)) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }

    fn enter<'a>(
        &'a self,
        stream: &StreamAccess<'a, D>,
        entered: &mut Entered<'a, D::Backend>,
    ) -> Result<()> {
        OperandOn::enter(self, stream, entered)
    }

    fn announce(held: &Self::Held) {
        <Self as OperandOn<D>>::announce(held);
    }

    fn seen<'v>(held: &'v Self::Held, seen: &mut Vec<Seen<'v, D::Backend>>) {
        <Self as Operand>::seen(held, seen);
    }
}
