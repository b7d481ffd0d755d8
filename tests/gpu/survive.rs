//! A rank ends, and the others continue: as threads of one process, each with a GPU.

use std::sync::Barrier;
use std::time::Duration;

use typed_nccl::{Communicator, Cuda, Error, Invitation, Rank, Result, Seat, Sum, World};

use crate::common::{busy, connect_for, gpu, ranks};

/// Works until a rank is lost.
fn until_it_fails<W: World>(comm: &Communicator<W>) -> Error {
    loop {
        if let Err(error) = adds_up(comm) {
            return error;
        }
    }
}

/// Checks that the ranks add up.
fn adds_up<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = typed_nccl::Device::from_slice(comm.device(), &[comm.rank().index() as u64, 1])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let n = comm.size() as u64;
    assert_eq!(x.to_vec()?, [n * (n - 1) / 2, n]);
    Ok(())
}

pub(crate) fn the_others_go_on_when_a_rank_aborts() -> Result<()> {
    let n = ranks()?;
    for victim in [0, n - 1] {
        Cuda::spmd(n, |place| -> Result<()> {
            let mut comm = place.init()?;
            let own = comm.rank().index();
            let stream = comm.device().stream()?;
            let mut even = comm.window::<u32>(4)?;
            let uneven = comm.window_uneven::<u32>(own + 1)?;
            let tripled = comm.pre_mul_sum(3_u64)?;
            let buffer = comm.device().nccl_zeros::<u64>(8)?;
            let registration = comm.register_buffer(&buffer)?;
            comm.on(&stream).all_reduce_in_place(&mut even, Sum)?;
            comm.sync(&stream)?;
            even.copy_from(&[own as u32; 4])?;
            comm.barrier()?;
            if own == victim {
                comm.abort();
                return Ok(());
            }
            let told = until_it_fails(&comm);
            assert!(told.is_peer_failure(), "{told}");
            let recovery = comm.recover()?;
            assert_eq!(recovery.lost.len(), 1, "{recovery}");
            assert_eq!(recovery.lost[0].rank.index(), victim, "{recovery}");
            assert_eq!(
                (comm.size(), recovery.before(comm.rank())),
                (n - 1, Some(Rank::from_index(own)))
            );
            adds_up(&comm)?;
            // The windows' contents, and the data that peers put into them.
            assert_eq!(even.to_vec()?, [own as u32; 4]);
            let lens: Vec<usize> = (0..n - 1).map(|r| uneven.len_at(r)).collect();
            let expected: Vec<usize> = (0..n).filter(|&r| r != victim).map(|r| r + 1).collect();
            assert_eq!(lens, expected);
            let mut x = comm.device().from_slice(&[1_u64])?;
            comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
            comm.sync(&stream)?;
            assert_eq!(x.to_vec()?, [n as u64 - 1]);
            if comm.size() > 1 {
                let mut x = comm.device().from_slice(&[1_u64])?;
                comm.all_reduce_in_place(&mut x, &tripled)?;
                assert_eq!(x.to_vec()?, [3 * (n as u64 - 1)]);
                match comm.put_signal(even.slice(0..1), comm.ring(1), uneven.at(0)) {
                    Ok(()) => {
                        comm.wait_signal(comm.ring(-1))?;
                        let left = recovery.before(comm.ring(-1)).expect("it is one of them");
                        assert_eq!(uneven.to_vec()?[0], left.index() as u32);
                    }
                    // Releases and machines without one-sided operations.
                    Err(Error::Unsupported(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            comm.deregister_buffer(registration)?;
            comm.close(even)?;
            comm.close(uneven)?;
            comm.finish()
        })?;
    }
    Ok(())
}

pub(crate) fn a_communicator_is_shrunk_well_and_revoked() -> Result<()> {
    let n = ranks()?;
    for revokes in [false, true] {
        Cuda::spmd(n, |place| -> Result<()> {
            let comm = place.init()?;
            let own = comm.rank().index();
            let mut x = comm.device().from_slice(&[1_u64])?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            // A rank that is left out sees no results beyond those it has seen by then.
            assert_eq!(x.to_vec()?, [n as u64]);
            comm.barrier()?;
            if own == n - 1 {
                let told = until_it_fails(&comm);
                assert!(told.is_peer_failure(), "{told}");
                comm.abort();
                return Ok(());
            }
            let comm = match revokes {
                true => comm.revoke().shrink(&[n - 1])?,
                false => comm.shrink(&[n - 1])?,
            };
            assert_eq!(comm.size(), n - 1);
            assert_eq!(x.to_vec()?, [n as u64]);
            adds_up(&comm)?;
            comm.finish()
        })?;
    }
    Ok(())
}

/// One rank grows to all, as threads of this process, which shrink to one again.
pub(crate) fn one_rank_grows_to_all_and_shrinks() -> Result<()> {
    let n = ranks()?;
    let (tell, hears) = std::sync::mpsc::channel::<Invitation>();
    std::thread::scope(|scope| {
        let newcomers = scope.spawn(move || -> Result<()> {
            let invitation = hears.recv().map_err(Error::other)?;
            std::thread::scope(|scope| {
                let join = |k: usize| {
                    let invitation = &invitation;
                    scope.spawn(move || -> Result<()> {
                        let device = gpu(k + 1)?;
                        let comm = Seat::invited(invitation, k)?.init(device)?;
                        adds_up(&comm)?;
                        comm.barrier()?;
                        // Rank 0 continues alone.
                        let told = comm.barrier().expect_err("it is left out");
                        assert!(told.is_peer_failure(), "{told}");
                        comm.abort();
                        Ok(())
                    })
                };
                let threads: Vec<_> = (0..invitation.newcomers()).map(join).collect();
                threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
            })
        });
        let comm = Seat::local(1).remove(0).init(Cuda::any(0)?)?;
        let mut x = comm.device().from_slice(&[3_u64])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let invitation = comm.invite(n - 1)?;
        tell.send(invitation.clone()).map_err(Error::other)?;
        let comm = comm.grow(invitation)?;
        assert_eq!((comm.rank().index(), comm.size(), x.to_vec()?), (0, n, vec![3]));
        adds_up(&comm)?;
        comm.barrier()?;
        let others: Vec<usize> = (1..n).collect();
        let comm = comm.shrink(&others)?;
        assert_eq!(comm.size(), 1);
        adds_up(&comm)?;
        comm.finish()?;
        newcomers.join().expect("no panic")
    })
}

/// Likewise, with a newcomer in another process.
pub(crate) fn a_process_grows_by_another_one() -> Result<()> {
    const BYTES: &str = "TYPED_NCCL_GPU_INVITATION";
    if let Ok(text) = std::env::var(BYTES) {
        let bytes: Vec<u8> = serde_json::from_str(&text).map_err(Error::other)?;
        let invitation = Invitation::from_bytes(&bytes)?;
        let comm = Seat::invited(&invitation, 0)?.init(gpu(1)?)?;
        adds_up(&comm)?;
        return comm.finish();
    }
    let comm = Seat::local(1).remove(0).init(Cuda::any(0)?)?;
    adds_up(&comm)?;
    let invitation = comm.invite(1)?;
    let text = serde_json::to_string(&invitation.to_bytes().to_vec()).map_err(Error::other)?;
    let program = std::env::current_exe().map_err(Error::other)?;
    let mut newcomer =
        std::process::Command::new(program).env(BYTES, text).spawn().map_err(Error::other)?;
    let comm = comm.grow(invitation)?;
    adds_up(&comm)?;
    comm.finish()?;
    assert!(newcomer.wait().map_err(Error::other)?.success());
    Ok(())
}

pub(crate) fn ranks_of_before_are_refused() -> Result<()> {
    Cuda::spmd(ranks()?, |place| -> Result<()> {
        let comm = place.init()?;
        comm.barrier()?;
        crate::stale::ranks_of_before_are_refused(comm)
    })?;
    Ok(())
}

pub(crate) fn suspended_and_resumed() -> Result<()> {
    Cuda::spmd(ranks()?, |place| -> Result<()> { suspends(place.init()?) })?;
    Ok(())
}

/// The numbers are intact, if NCCL can suspend.
pub(crate) fn suspends<W: World>(comm: Communicator<W>) -> Result<()> {
    match comm.memory_stats() {
        Ok(stats) => println!("rank {}: {stats}", comm.rank()),
        Err(Error::Unsupported(old)) => {
            println!("SKIPPED: {old}");
            let failed = comm.try_suspend().expect_err("it is too old");
            assert!(matches!(failed.error, Error::Unsupported(_)), "{}", failed.error);
            adds_up(&failed.value)?;
            return failed.value.finish();
        }
        Err(error) => return Err(error),
    }
    crate::suspend::what_there_was_is_there_again(comm)
}

pub(crate) fn a_rank_dies_while_it_is_suspended() -> Result<()> {
    let n = ranks()?;
    let all = Barrier::new(n);
    Cuda::spmd(n, |place| -> Result<()> {
        crate::suspend::a_rank_dies_while_it_is_suspended(place.init()?, &all)
    })?;
    Ok(())
}

pub(crate) fn a_rank_dies_instead_of_suspending() -> Result<()> {
    Cuda::spmd(ranks()?, |place| -> Result<()> {
        let comm = place.init()?;
        comm.barrier()?;
        crate::suspend::a_rank_dies_instead(comm)
    })?;
    Ok(())
}

pub(crate) fn a_deadline_passes_while_suspending() -> Result<()> {
    let (deadline, both) = (Duration::from_millis(busy(5_000, 16) as u64), Barrier::new(2));
    Cuda::spmd(2, |place| -> Result<()> {
        crate::suspend::a_deadline_passes(connect_for(place, deadline)?, &both)
    })?;
    Ok(())
}
