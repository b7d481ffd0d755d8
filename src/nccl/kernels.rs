//! What kernels get to know about windows.

use nccl_sys::{NCCL_LE_ID_INVALID, ncclCftTeamMode_t, ncclComm_t, ncclTeam_t};

use super::api::lacking;
use super::comm::Comm;
use super::device::team_of;
use super::values::number;
use crate::backend::WindowId;
use crate::window::{Endpoint, EndpointOf, TeamOf};
use crate::{Result, Team};

/// Converts one of NCCL's teams that contains this rank of `world`.
pub(super) fn team(found: ncclTeam_t, world: Team) -> Team {
    let number = |n: i32| usize::try_from(n).unwrap_or(0);
    let (rank, size, stride) = (number(found.rank), number(found.nRanks), number(found.stride));
    Team { rank, size, first: world.rank.saturating_sub(rank * stride), stride, ..world }
}

impl Comm {
    pub(super) fn team(&self, of: TeamOf, world: Team) -> Option<Team> {
        let api = &self.nccl.api;
        self.gpu.bind().ok()?;
        let counted = |mode| {
            // SAFETY: the communicator is alive.
            api.ncclTeamCft().map(|find| unsafe { find(self.handle, mode) })
        };
        let plain = |find: unsafe extern "C" fn(ncclComm_t) -> ncclTeam_t| {
            // SAFETY: the communicator is alive.
            unsafe { find(self.handle) }
        };
        let found = match of {
            TeamOf::Rail => api.ncclTeamRail().map(plain),
            TeamOf::Counted => counted(ncclCftTeamMode_t::NCCL_CFT_TEAM_FLAT),
            TeamOf::CountedMultimem => counted(ncclCftTeamMode_t::NCCL_CFT_TEAM_HIER_MULTIMEM),
            TeamOf::CountedLsa => counted(ncclCftTeamMode_t::NCCL_CFT_TEAM_HIER_LSA),
            TeamOf::CountedMulticast => api.ncclTeamCftMultimem().map(plain),
        };
        found.ok().map(|found| team(found, world)).filter(|team| team.size > 0)
    }

    /// The endpoint of counted transfers for an offset, in bytes, of a window.
    pub(super) fn endpoint(
        &self,
        id: WindowId,
        of: EndpointOf,
        offset: usize,
    ) -> Result<Option<Endpoint>> {
        let (api, window) = (&self.nccl.api, self.window(id)?);
        let missing = lacking("an endpoint of a window");
        let (mut id, mut place) = (NCCL_LE_ID_INVALID, 0);
        self.gpu.bind()?;
        let (function, result) = match of {
            EndpointOf::Peer(peer) => {
                let find = api.ncclGetPeerDeviceLeInfo().map_err(&missing)?;
                let peer = number(peer.index());
                // SAFETY: the window is this communicator's; `id` and `place` are valid for writes.
                let result = unsafe { find(window, offset, peer, &raw mut id, &raw mut place) };
                ("ncclGetPeerDeviceLeInfo", result)
            }
            EndpointOf::Member(team, index) => {
                let find = api.ncclGetCftDeviceLeInfo().map_err(&missing)?;
                let team = team_of(&team);
                let index = number(index);
                // SAFETY: as above.
                let result =
                    unsafe { find(window, offset, index, team, &raw mut id, &raw mut place) };
                ("ncclGetCftDeviceLeInfo", result)
            }
            EndpointOf::Multicast => {
                let find = api.ncclGetMultimemDeviceLeInfo().map_err(&missing)?;
                // The first query sets multicast up, on all ranks.
                let result = self.inside(|| {
                    // SAFETY: as above.
                    unsafe { find(window, offset, &raw mut id, &raw mut place) }
                });
                ("ncclGetMultimemDeviceLeInfo", result)
            }
        };
        self.nccl.check(function, None, result)?;
        Ok((id != NCCL_LE_ID_INVALID).then_some(Endpoint { id, offset: place }))
    }
}
