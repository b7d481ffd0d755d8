//! What kernels need of windows: handles, teams, endpoints. NCCL's device code reads them.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::{Endpoint, EndpointOf, LsaPointers, Team, TeamOf, Window, WindowKind, WindowPlace};
use crate::backend::{Backend, Windows};
use crate::communicator::{CanEnqueue, Core, State};
use crate::error::{BadRange, Site};
use crate::{AsRank, Communicator, Device, Element, Rank, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// ## Windows in kernels
impl<W: World, S: State> Communicator<W, S> {
    /// NCCL's handle of a window, `ncclWindow_t`, for kernels written against NCCL's device code:
    /// the only use of a [`GinOnly`](crate::GinOnly) or [`CftCounted`](crate::CftCounted) window.
    /// Valid until the window is closed, or the communicator goes on without ranks. `None` on the
    /// host.
    ///
    /// # Errors
    /// A window of another communicator; a poisoned communicator.
    pub fn window_handle<T: Element, K: WindowKind>(
        &self,
        window: &Window<T, W, K>,
    ) -> Result<Option<NonNull<c_void>>>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.resources.window(&window.named.key)?;
        let handle = <Back<W> as Windows>::handle(core.comm()?, window.named.id);
        Ok(handle.and_then(|handle| NonNull::new(handle.cast())))
    }

    /// The ranks of a team for kernels. `None` without such a team: on the host, and for counted
    /// transfers in older releases.
    ///
    /// # Errors
    /// A poisoned communicator.
    pub fn team(&self, of: TeamOf) -> Result<Option<Team>>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        Ok(<Back<W> as Windows>::team(core.comm()?, of, self.world_team()))
    }

    /// The address of a window in a multicast mapping that a device communicator has for a team of
    /// its own; `mapping` is that mapping's first address (`ncclMultimemHandle_t`). `None` if the
    /// machine has no multicast. NCCL: `ncclGetMultimemDevicePointer`, 2.29.
    ///
    /// # Errors
    /// A window of another communicator; a poisoned communicator.
    pub fn multimem_ptr_in<T: Element, K: LsaPointers>(
        &self,
        window: &Window<T, W, K>,
        mapping: NonNull<c_void>,
    ) -> Result<Option<NonNull<T>>>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.resources.window(&window.named.key)?;
        let mapping = mapping.as_ptr().cast();
        let address =
            <Back<W> as Windows>::multimem_address_in(core.comm()?, window.named.id, mapping);
        Ok(address.and_then(|address| NonNull::new(address.cast())))
    }

    /// Where counted transfers reach a place of `peer`'s part of a window: `window.at(offset)`, in
    /// elements. `None` if they do not reach it. NCCL: `ncclGetPeerDeviceLeInfo`, 2.31.
    ///
    /// # Errors
    /// A window of another communicator; a place past its end; a rank out of range; a poisoned
    /// communicator.
    #[track_caller]
    pub fn endpoint_at<T: Element, K: LsaPointers>(
        &self,
        place: WindowPlace<'_, T, W, K>,
        peer: impl AsRank,
    ) -> Result<Option<Endpoint>>
    where
        S: CanEnqueue,
    {
        let (core, site) = (&S::live(&self.body).core, Site::caller());
        let Some(number) = core.number(peer) else {
            return Err(core.no_rank("endpoint_at", peer, false, site));
        };
        endpoint(core, &place, EndpointOf::Peer(Rank::at(number)), site)
    }

    /// [`endpoint_at`](Self::endpoint_at) for the rank at `index` of a team for counted transfers.
    /// NCCL: `ncclGetCftDeviceLeInfo`, 2.31.
    ///
    /// # Errors
    /// As [`endpoint_at`](Self::endpoint_at); an index past the team's end.
    #[track_caller]
    pub fn endpoint_in<T: Element, K: LsaPointers>(
        &self,
        place: WindowPlace<'_, T, W, K>,
        team: Team,
        index: usize,
    ) -> Result<Option<Endpoint>>
    where
        S: CanEnqueue,
    {
        let (core, site) = (&S::live(&self.body).core, Site::caller());
        if index >= team.size {
            let end = index.saturating_add(1);
            return Err(BadRange { start: index, end, len: team.size, site }.into());
        }
        endpoint(core, &place, EndpointOf::Member(team, index), site)
    }

    /// [`endpoint_at`](Self::endpoint_at) for all ranks at once. NCCL:
    /// `ncclGetMultimemDeviceLeInfo`, 2.31.
    ///
    /// # Errors
    /// As [`endpoint_at`](Self::endpoint_at).
    #[track_caller]
    pub fn multicast_endpoint<T: Element, K: LsaPointers>(
        &self,
        place: WindowPlace<'_, T, W, K>,
    ) -> Result<Option<Endpoint>>
    where
        S: CanEnqueue,
    {
        endpoint(&S::live(&self.body).core, &place, EndpointOf::Multicast, Site::caller())
    }
}

fn endpoint<B: Backend, T: Element, W: World, K: WindowKind>(
    core: &Core<B>,
    place: &WindowPlace<'_, T, W, K>,
    of: EndpointOf,
    site: Site,
) -> Result<Option<Endpoint>> {
    let (offset, id) = (place.offset, core.resources.window(place.key())?.id);
    let len = match of {
        EndpointOf::Peer(peer) => place.len_of(peer.index()),
        EndpointOf::Member(team, index) => {
            team.to_world(index).map_or(0, |rank| place.len_of(rank.index()))
        }
        EndpointOf::Multicast => place.len_of(core.rank.index()),
    };
    if offset > len {
        return Err(BadRange { start: offset, end: offset, len, site }.into());
    }
    B::endpoint(core.comm()?, id, of, offset * size_of::<T>())
}
