//! Every rank's part of a window, as an operand of a launch on the host.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{DevComm, Entered, Shared};
use crate::backend::{DeviceComms as _, Seen};
use crate::derived::{copy, debug};
use crate::host::HostBackend;
use crate::host::mirror::{HostWindow, PeerParts};
use crate::memory::Allocation;
use crate::stream::StreamAccess;
use crate::window::WindowKind;
use crate::{Device, Element, Host, LsaPointers, Operand, OperandOn, Result, Window, World};

/// Every rank's part of a window, as [`DevComm::peers`] passes it to a closure on the host; a
/// kernel has an `ncclWindow_t` instead. The launch uses this rank's part in stream order.
///
/// ```
/// # use typed_nccl::{Host, Peers, Requirements, Seat, Symmetric};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (api, window) = (comm.device_api()?, comm.window::<f32>(4)?);
/// let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(1))?;
/// let peers: Peers<'_, f32, Host, Symmetric> = dev.peers(&window);
/// comm.stream().launch((&dev, peers), |(dev, window), ()| window.peer(dev.rank()).set(0, 7.0))?;
/// assert_eq!(window.to_vec()?, [7.0, 0.0, 0.0, 0.0]);
/// comm.close_dev_comm(dev)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[must_use = "it is an operand of `stream.launch`"]
pub struct Peers<'d, T, W: World, K> {
    dev: &'d DevComm<W>,
    window: &'d Window<T, W, K>,
}

copy!([T, W: World, K] Peers<'_, T, W, K>);

debug!(
    [T: Element, W: World, K: WindowKind] Peers<'_, T, W, K>,
    self => "Peers of {:?}", self.window
);

impl<Tag, W: World<Device = Host<Tag>>> DevComm<W> {
    /// Every rank's part of a window, for a closure on the host that also takes the device
    /// communicator: `stream.launch((&dev, dev.peers(&window)), |(dev, window), ()| ..)`. A launch
    /// with a window of another communicator is refused.
    pub fn peers<'d, T: Element, K: LsaPointers>(
        &'d self,
        window: &'d Window<T, W, K>,
    ) -> Peers<'d, T, W, K> {
        Peers { dev: self, window }
    }
}

/// The form that a queue holds.
#[doc(hidden)]
pub struct HeldPeers<T> {
    shared: Arc<Shared<HostBackend>>,
    peers: PeerParts,
    elements: PhantomData<fn() -> T>,
}

impl<T: Element, W: World<Device: Device<Backend = HostBackend>>, K: LsaPointers> Operand
    for Peers<'_, T, W, K>
{
    type Backend = HostBackend;
    type View<'v> = HostWindow<'v, T>;
    type Held = HeldPeers<T>;

    fn seen<'v>(_: &'v Self::Held, _: &mut Vec<Seen<'v, HostBackend>>) {}

    unsafe fn view<'v>(held: &'v Self::Held) -> Self::View<'v> {
        HostWindow::new(&held.shared, &held.peers)
    }
}

#[diagnostic::do_not_recommend]
impl<D, T, W, K> OperandOn<D> for Peers<'_, T, W, K>
where
    D: Device<Backend = HostBackend>,
    T: Element,
    W: World<Device = D>,
    K: LsaPointers,
{
    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
        let shared = OperandOn::hold(&self.dev, stream)?;
        self.window.named.key.is_of(&self.dev.key, W::NAME)?;
        let window = self.window.registered().1;
        let lens = |rank| self.window.len_at(rank);
        let peers = HostBackend::peers(&shared, window, &lens, W::NAME)?;
        Ok(HeldPeers { shared, peers, elements: PhantomData })
    }

    fn used(&self) -> Option<(&Arc<Allocation<HostBackend>>, bool)> {
        Some((self.window.registered().0, true))
    }

    fn enter<'a>(
        &'a self,
        stream: &StreamAccess<'a, D>,
        entered: &mut Entered<'a, HostBackend>,
    ) -> Result<()> {
        OperandOn::enter(&self.dev, stream, entered)
    }

    fn announce(held: &Self::Held) {
        held.shared.announce();
    }
}
