//! Other ranks' memory for kernels: teams, addresses by multicast, endpoints.

use std::ffi::c_void;
use std::ptr::{NonNull, without_provenance_mut};

use fake_nccl::{Call, Value};
use nccl_sys::Function::{
    ncclGetCftDeviceLeInfo, ncclGetLsaMultimemDevicePointer, ncclGetMultimemDevicePointer,
    ncclTeamCft, ncclTeamCftMultimem, ncclTeamRail,
};
use typed_nccl::{CftCounted, Cuda, Endpoint, Team, TeamOf};

use crate::common::{Wire, alone, calls, count};
use crate::scenario::{NEWEST, nccl, on};

/// The number of ranks, this rank, and the stride.
fn numbers(team: Team) -> (usize, usize, usize) {
    (team.size, team.rank, team.stride)
}

/// A team that was passed to a call.
fn given(call: &Call) -> [i32; 3] {
    let Value::Bytes(bytes) = call.argument("cftTeam") else { panic!("a struct") };
    let mut words = bytes.chunks_exact(4).map(|word| word.try_into().expect("four bytes"));
    std::array::from_fn(|_| i32::from_ne_bytes(words.next().expect("three numbers")))
}

/// The double returns a different team for each query; the stride identifies it.
#[test]
fn each_team_is_nccls_of_that_name() {
    on(NEWEST, || {
        nccl().set_mapped(true);
        Cuda::spmd(4, |place| {
            let comm = place.init()?;
            let rank = comm.rank().index();
            let world = comm.world_team();
            assert_eq!((numbers(world), world.first), ((4, rank, 1), 0));
            assert_eq!(world.to_world(3), Some(comm.peer(3)?));
            let wire = Wire::of(&comm)?;
            let team = |of| Ok::<_, typed_nccl::Error>(comm.team(of)?.expect("there is one"));
            assert_eq!(numbers(team(TeamOf::Rail)?), (4, rank, 1));
            assert_eq!(numbers(team(TeamOf::Counted)?), (4, rank, 1));
            let shares_multicast = team(TeamOf::CountedMultimem)?;
            assert_eq!(numbers(shares_multicast), (2, rank / 2, 2));
            assert_eq!(shares_multicast.first, rank % 2);
            let in_it = [0, 1, 2].map(|index| shares_multicast.to_world(index));
            let ranks = [Some(comm.peer(rank % 2)?), Some(comm.peer(2 + rank % 2)?), None];
            assert_eq!(in_it, ranks);
            let shares_memory = team(TeamOf::CountedLsa)?;
            assert_eq!(shares_memory.stride, 3);
            assert_eq!(shares_memory.index_of(comm.rank()), Some(rank / 3));
            assert_eq!(team(TeamOf::CountedMulticast)?.stride, 4);
            let called = wire.calls();
            let functions: Vec<_> = called.iter().map(|call| call.function).collect();
            let counted = ncclTeamCft;
            assert_eq!(functions, [ncclTeamRail, counted, counted, counted, ncclTeamCftMultimem]);
            let modes: Vec<_> = called[1..4].iter().map(|call| call.int("mode")).collect();
            // FLAT, HIER_MULTIMEM, HIER_LSA.
            assert_eq!(modes, [0, 1, 2]);
            comm.finish()
        })
        .map(drop)
    });
}

#[test]
fn addresses_by_multicast() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let window = comm.window::<f32>(64)?;
        let mapping = NonNull::new(without_provenance_mut::<c_void>(1 << 30)).expect("not null");
        assert_eq!(comm.multimem_ptr(&window)?, None);
        assert_eq!(comm.multimem_ptr_in(&window, mapping)?, None);
        nccl().set_mapped(true);
        let all = comm.multimem_ptr(&window)?.expect("there is multicast").as_ptr();
        assert_eq!(all.addr(), 1 << 44);
        assert_eq!(all.wrapping_add(5).addr(), (1 << 44) + 20);
        let these = comm.multimem_ptr_in(&window, mapping)?.expect("it is mapped").as_ptr();
        assert_eq!((these.addr(), these.wrapping_add(7).addr()), (1 << 30, (1 << 30) + 28));
        let asked = calls(ncclGetLsaMultimemDevicePointer);
        let handle = comm.window_handle(&window)?.expect("NCCL has one").addr().get();
        assert_eq!((asked[1].pointer("window"), asked[1].int("offset")), (handle, 0));
        assert_eq!(count(ncclGetMultimemDevicePointer), 2);
        comm.finish()
    });
}

/// An endpoint's number identifies the rank, and its offset the place in the window.
#[test]
fn endpoints_of_peers() {
    on(NEWEST, || {
        nccl().set_mapped(true);
        nccl().set_counted(true);
        Cuda::spmd(4, |place| {
            let mut comm = place.init()?;
            let rank = comm.rank().index();
            let buffer = comm.device().nccl_zeros::<f64>(100)?;
            let window = comm.register_window_as(buffer, CftCounted)?;
            let wire = Wire::of(&comm)?;
            let start = 1 << 16;
            for peer in 0..4 {
                let Endpoint { id, offset } =
                    comm.endpoint_at(window.at(peer), peer)?.expect("it is reached");
                assert_eq!((id, offset), (100 + peer as u32, start + 8 * peer));
            }
            let team = comm.team(TeamOf::CountedMultimem)?.expect("there is one");
            let found = comm.endpoint_in(window.at(3), team, 1)?.expect("it is reached");
            // The second rank of the team of every second rank.
            assert_eq!((found.id, found.offset), (102 + rank as u32 % 2, start + 24));
            let asked = wire.calls();
            let asked = asked.iter().find(|call| call.function == ncclGetCftDeviceLeInfo);
            let asked = asked.expect("it was asked for");
            assert_eq!((given(asked), asked.int("peerCft")), ([2, rank as i32 / 2, 2], 1));
            let all = comm.multicast_endpoint(window.at(9))?.expect("there is multicast");
            assert_eq!((all.id, all.offset), (104, start + 72));
            comm.finish()
        })
        .map(drop)
    });
}
