//! Addresses of windows: this rank's and the peers', and accesses through them.

use std::ptr::NonNull;

use typed_nccl::{Error, Host, Rank, Result};

use crate::ranks::spmd;

/// Each rank reads its neighbour's data, by an address and past it.
#[test]
fn a_peers_memory_is_read_by_its_address() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (own, right) = (comm.rank().index() as u32, comm.ring(1));
        let mut window = comm.window::<u32>(8)?;
        window.copy_from(&std::array::from_fn::<_, 8, _>(|n| 100 * own + n as u32))?;
        comm.barrier()?;
        let mine = comm.peer_ptr(&window, comm.rank())?;
        assert_eq!(mine, NonNull::new(window.user_ptr()));
        let team = comm.lsa_team()?;
        assert_eq!(team.index_of(right), Some(right.index()));
        let peer = team.to_world(right.index()).expect("all are in it");
        let theirs = comm.peer_ptr(&window, peer)?.expect("all share memory").as_ptr();
        assert_ne!(theirs, window.user_ptr());
        let read = |at: usize| {
            // SAFETY: the part has eight elements.
            let at = unsafe { theirs.add(at) };
            // SAFETY: nothing writes between the barriers, and the window stays until the second
            // one.
            unsafe { at.read() }
        };
        let first = 100 * right.index() as u32;
        assert_eq!([read(0), read(5), read(7)], [first, first + 5, first + 7]);
        comm.barrier()?;
        assert!(matches!(comm.peer_ptr(&window, Rank::from_index(3)), Err(Error::NoSuchRank(_))));
        comm.finish()
    })
}

/// The ranks of a communicator, as a team.
#[test]
fn all_ranks_are_a_team() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let team = comm.world_team();
        assert_eq!((team.rank, team.size), (comm.rank().index(), 3));
        assert_eq!((team.first, team.stride), (0, 1));
        let near = comm.lsa_team()?;
        for index in 0..3 {
            let rank = team.to_world(index).expect("it is in it");
            assert_eq!((rank.index(), near.index_of(rank)), (index, Some(index)));
        }
        assert_eq!(team.to_world(3), None);
        comm.finish()
    })
}
