//! A device communicator as an operand of a launch, which uses it in stream order.

use std::sync::Arc;

use super::{DevComm, Entered, Shared};
use crate::backend::{DeviceComms, Seen};
use crate::memory::Allocation;
use crate::stream::StreamAccess;
use crate::{Device, Operand, OperandOn, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

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
        self.shared.is_on(stream.core, D::KIND, stream.site)?;
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
        self.shared.enter(stream.core, stream.site, entered)
    }

    fn announce(held: &Self::Held) {
        held.announce();
    }
}
