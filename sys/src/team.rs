//! Teams of ranks, and the small handles that kernels use with them.

use std::ffi::{c_int, c_void};

use crate::handles::ncclComm_t;
use crate::macros::{c_enum, functions, layout};

/// A place in a communicator's device buffer.
pub type ncclDevResourceHandle_t = u32;
/// The number of a signal over the network.
pub type ncclGinSignal_t = u32;
/// The number of a counter over the network.
pub type ncclGinCounter_t = u32;
/// A logical endpoint.
pub type ncclCftLeId_t = u32;

/// No endpoint.
pub const NCCL_LE_ID_INVALID: ncclCftLeId_t = ncclCftLeId_t::MAX;

layout! {
    /// Every `stride`-th rank, `nRanks` of them, this one the `rank`-th.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ncclTeam_t;
    since "2.28.3" {
        /// How many.
        nRanks: c_int,
        /// This rank's place.
        rank: c_int,
        /// The distance between neighbours.
        stride: c_int,
    }
}

layout! {
    /// A multicast mapping.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclMultimemHandle_t;
    since "2.28.3" {
        /// Its first byte.
        mcBasePtr: *mut c_void,
    }
}

c_enum! {
    /// Which ranks a team for counted transfers has.
    pub struct ncclCftTeamMode_t;
    since "2.31.2" {
        /// All.
        NCCL_CFT_TEAM_FLAT = 0;
        /// Those that share multicast.
        NCCL_CFT_TEAM_HIER_MULTIMEM = 1;
        /// Those that share memory.
        NCCL_CFT_TEAM_HIER_LSA = 2;
    }
}

functions! {
    /// All ranks. These functions have no way to say that they failed.
    fn ncclTeamWorld(comm: ncclComm_t) -> ncclTeam_t;

    /// The ranks that share memory with this one.
    fn ncclTeamLsa(comm: ncclComm_t) -> ncclTeam_t;

    /// The ranks of the same place among those that share memory.
    fn ncclTeamRail(comm: ncclComm_t) -> ncclTeam_t;

    /// The ranks of counted transfers.
    fn ncclTeamCft(comm: ncclComm_t, mode: ncclCftTeamMode_t) -> ncclTeam_t;

    /// The ranks of counted multicast transfers.
    fn ncclTeamCftMultimem(comm: ncclComm_t) -> ncclTeam_t;

    /// The rank in the communicator of a rank in a team.
    fn ncclTeamRankToWorld(comm: ncclComm_t, team: ncclTeam_t, rank: c_int) -> c_int;

    /// The place among those that share memory of a rank in a team.
    fn ncclTeamRankToLsa(comm: ncclComm_t, team: ncclTeam_t, rank: c_int) -> c_int;
}

const _: () = {
    assert!(size_of::<ncclTeam_t>() == 12 && align_of::<ncclTeam_t>() == 4);
    assert!(size_of::<ncclMultimemHandle_t>() == 8);
};
