//! Teams. No ranks share memory unless data moves; then all of them do. With `FAKE_NCCL_NEAR=2` in
//! the environment only that many neighbours do, in larger communicators.

use std::env;
use std::ffi::c_int;
use std::sync::LazyLock;

use nccl_sys::{Function, ncclCftTeamMode_t, ncclComm, ncclComm_t, ncclTeam_t};

use crate::books::Communicator;
use crate::export::exports;
use crate::moves;
use crate::pointer::Place;
use crate::state::State;

/// A rank alone.
const ALONE: ncclTeam_t = ncclTeam_t { nRanks: 1, rank: 0, stride: 1 };

/// The result of these functions, which report no errors, for an invalid communicator.
const NOBODY: ncclTeam_t = ncclTeam_t { nRanks: 0, rank: 0, stride: 0 };

fn everyone(communicator: Communicator) -> ncclTeam_t {
    ncclTeam_t { nRanks: communicator.count, rank: communicator.rank, stride: 1 }
}

fn near(communicator: Communicator) -> ncclTeam_t {
    static NEAR: LazyLock<Option<c_int>> =
        LazyLock::new(|| env::var("FAKE_NCCL_NEAR").ok()?.parse().ok());
    match *NEAR {
        _ if !moves::are_on() => ALONE,
        Some(near) if near < communicator.count => {
            ncclTeam_t { nRanks: near, rank: communicator.rank % near, stride: 1 }
        }
        _ => everyone(communicator),
    }
}

fn found(state: &mut State, function: Function, comm: Place<ncclComm>) -> Option<Communicator> {
    match state.live(comm) {
        Ok(found) => Some(*found),
        Err(refusal) => {
            // The log is the only place to report it.
            let _ = state.refuse(function, refusal);
            None
        }
    }
}

/// Stands for the team of counted multicast transfers among the modes.
const MULTIMEM: c_int = 3;

/// A team of counted transfers: a single rank, or for each mode a team whose stride is the mode
/// plus one.
fn counted(
    state: &mut State,
    function: Function,
    comm: Place<ncclComm>,
    mode: c_int,
) -> ncclTeam_t {
    let is_mapped = state.is_mapped;
    found(state, function, comm).map_or(NOBODY, |this| {
        let stride = mode + 1;
        match is_mapped {
            true => ncclTeam_t {
                nRanks: (this.count - this.rank % stride - 1) / stride + 1,
                rank: this.rank / stride,
                stride,
            },
            false => ALONE,
        }
    })
}

/// The distance of a member from this rank.
fn distance(team: ncclTeam_t, rank: c_int) -> c_int {
    rank.wrapping_sub(team.rank).wrapping_mul(team.stride)
}

exports! {
    tell fn ncclTeamWorld(comm: ncclComm_t) -> ncclTeam_t =
        |state| found(state, Function::ncclTeamWorld, comm).map_or(NOBODY, everyone);

    tell fn ncclTeamLsa(comm: ncclComm_t) -> ncclTeam_t =
        |state| found(state, Function::ncclTeamLsa, comm).map_or(NOBODY, near);

    tell fn ncclTeamRail(comm: ncclComm_t) -> ncclTeam_t =
        |state| found(state, Function::ncclTeamRail, comm).map_or(NOBODY, everyone);

    tell fn ncclTeamCft(comm: ncclComm_t, mode: ncclCftTeamMode_t) -> ncclTeam_t =
        |state| counted(state, Function::ncclTeamCft, comm, mode.0);

    tell fn ncclTeamCftMultimem(comm: ncclComm_t) -> ncclTeam_t =
        |state| counted(state, Function::ncclTeamCftMultimem, comm, MULTIMEM);

    tell fn ncclTeamRankToWorld(
        comm: ncclComm_t,
        team: ncclTeam_t,
        rank: c_int,
    ) -> c_int = |state| {
        let found = found(state, Function::ncclTeamRankToWorld, comm);
        found.map_or(-1, |this| this.rank.wrapping_add(distance(team, rank)))
    };

    tell fn ncclTeamRankToLsa(
        comm: ncclComm_t,
        team: ncclTeam_t,
        rank: c_int,
    ) -> c_int = |state| {
        let found = found(state, Function::ncclTeamRankToLsa, comm);
        let own = |this: Communicator| near(this).rank;
        found.map_or(-1, |this| own(this).wrapping_add(distance(team, rank)))
    };
}
