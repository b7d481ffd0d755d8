//! Ranks die, and the others continue: revoke, shrink, recover, agree, on threads.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Device, Error, Host, Result, Revoked, Seat, Sum, World,
    tag,
};

use crate::ranks::spmd;

tag!(Pair, Rest);

type Anywhere = Host<AnyDevice>;

/// Runs a body on each of several ranks, and waits for all of them. A hang is reported.
fn ranks(n: usize, body: impl Fn(Communicator<Anywhere>) -> Result<()> + Send + Sync + 'static) {
    let body = Arc::new(body);
    let (told, hears) = channel();
    for seat in Seat::local(n) {
        let (body, told) = (body.clone(), told.clone());
        std::thread::spawn(move || {
            let rank = seat.rank().index();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let device = Host::any(rank as u32)?;
                let config = CommConfig::builder().deadline(Duration::from_secs(30)).build();
                let comm = Communicator::builder().seat(seat).device(device).config(config);
                let comm = comm.build().connect()?;
                // All of them are present before the first one leaves.
                comm.barrier()?;
                body(comm)
            }));
            let _ = told.send((rank, outcome.map_err(drop)));
        });
    }
    for _ in 0..n {
        let (rank, outcome) = hears.recv_timeout(Duration::from_secs(60)).expect("no rank hangs");
        match outcome {
            Ok(outcome) => outcome.unwrap_or_else(|error| panic!("rank {rank}: {error}")),
            Err(()) => panic!("rank {rank} panicked"),
        }
    }
}

/// Checks that the ranks of `comm` add up.
fn adds_up<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = comm.device().from_slice(&[comm.rank().index() as u64, 1])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let n = comm.size() as u64;
    assert_eq!(x.to_vec()?, [n * (n - 1) / 2, n]);
    Ok(())
}

/// Works until a rank is lost.
fn until_it_fails<W: World>(comm: &Communicator<W>) -> Error {
    loop {
        if let Err(error) = adds_up(comm) {
            return error;
        }
    }
}

#[test]
fn the_others_go_on_when_a_rank_aborts() {
    for victim in 0..3 {
        ranks(3, move |mut comm| {
            let own = comm.rank().index();
            adds_up(&comm)?;
            if own == victim {
                comm.abort_because("the disk is full");
                return Ok(());
            }
            assert!(until_it_fails(&comm).is_peer_failure());
            let recovery = comm.recover()?;
            assert_eq!(recovery.lost.len(), 1);
            assert_eq!(recovery.lost[0].rank.index(), victim);
            assert!(recovery.lost[0].why.contains("the disk is full"), "{recovery}");
            assert_eq!((recovery.rank_before.index(), recovery.size_before), (own, 3));
            assert_eq!(recovery.before(comm.rank()), Some(recovery.rank_before));
            assert_eq!(recovery.now(recovery.rank_before), Some(comm.rank()));
            assert_eq!(recovery.now(victim), None);
            assert_eq!((comm.size(), comm.rank().index()), (2, own - usize::from(own > victim)));
            comm.health()?;
            adds_up(&comm)?;
            comm.barrier()?;
            comm.finish()
        });
    }
}

#[test]
fn two_of_five_are_dropped_or_panic() {
    ranks(5, |mut comm| {
        match comm.rank().index() {
            0 => drop(comm),
            3 => {
                let thread = std::thread::spawn(move || {
                    let _comm = comm;
                    std::panic::resume_unwind(Box::new("bang"));
                });
                assert!(thread.join().is_err());
            }
            _ => {
                // The second one may not be gone yet when the others continue without the first.
                while comm.size() > 3 {
                    until_it_fails(&comm);
                    comm.recover()?;
                }
                adds_up(&comm)?;
                comm.finish()?;
            }
        }
        Ok(())
    });
}

/// A launcher names ranks by their first numbers, so a later recovery names both.
#[test]
fn a_second_recovery_names_the_numbers_at_the_start() {
    ranks(3, |mut comm| {
        let own = comm.rank().index();
        for (victim, told) in [(1, "; rank 1: "), (2, "; rank 1 (2 at the start): ")] {
            if own == victim {
                comm.abort();
                return Ok(());
            }
            until_it_fails(&comm);
            let recovery = comm.recover()?;
            let lost = &recovery.lost[0];
            assert_eq!((lost.rank.index(), lost.rank_at_start), (1, victim));
            assert!(recovery.to_string().contains(told), "{recovery}");
            comm.barrier()?;
        }
        comm.finish()
    });
}

#[test]
fn one_that_is_left_is_alone() {
    ranks(2, |mut comm| {
        if comm.rank().index() == 0 {
            comm.abort();
            return Ok(());
        }
        until_it_fails(&comm);
        comm.recover()?;
        assert_eq!((comm.rank().index(), comm.size()), (0, 1));
        adds_up(&comm)?;
        comm.finish()
    });
}

#[test]
fn a_well_communicator_recovers_whole() {
    ranks(3, |mut comm| {
        let recovery = comm.recover()?;
        assert!(recovery.lost.is_empty());
        assert_eq!(comm.size(), 3);
        adds_up(&comm)?;
        comm.finish()
    });
}

#[test]
fn what_was_made_stays_valid() {
    ranks(4, |mut comm| {
        let own = comm.rank().index();
        let stream = comm.device().stream()?;
        let lost = comm.window::<u32>(1)?;
        comm.close(lost)?;
        let mut even = comm.window::<u32>(4)?;
        let uneven = comm.window_uneven::<u32>(own + 1)?;
        let sum = comm.pre_mul_sum(3_u64)?;
        let scalar = comm.device().from_slice(&[2_u64])?;
        let device_sum = comm.pre_mul_sum_device(scalar)?;
        let buffer = comm.device().nccl_zeros::<u64>(8)?;
        let registration = comm.register_buffer(&buffer)?;
        let splits = comm.splits(&[1; 4])?;
        let handle = comm.abort_handle();
        comm.on(&stream).all_reduce_in_place(&mut even, Sum)?;
        comm.sync(&stream)?;
        comm.barrier()?;
        if own == 1 {
            comm.abort();
            return Ok(());
        }
        until_it_fails(&comm);
        comm.recover()?;

        // Streams: the program's, and the communicator's own.
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
        comm.sync(&stream)?;
        assert_eq!(x.to_vec()?, [3]);
        // Operators.
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, &sum)?;
        assert_eq!(x.to_vec()?, [9]);
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, &device_sum)?;
        assert_eq!(x.to_vec()?, [6]);
        // Windows, by their new neighbours.
        let mine = comm.rank().index() as u32;
        even.copy_from(&[mine; 4])?;
        comm.barrier()?;
        let lens: Vec<usize> = (0..3).map(|r| uneven.len_at(r)).collect();
        assert_eq!(lens, [1, 3, 4]);
        comm.put_signal(even.slice(0..1), comm.ring(1), uneven.at(0))?;
        comm.wait_signal(comm.ring(-1))?;
        comm.sync(comm.stream())?;
        assert_eq!(uneven.to_vec()?[0], (mine + 2) % 3);
        // A new one has a number of its own.
        let new = comm.window::<u32>(2)?;
        comm.put_signal(new.slice(0..1), comm.ring(1), new.at(1))?;
        comm.wait_signal(comm.ring(-1))?;
        comm.sync(comm.stream())?;
        comm.close(new)?;
        comm.close(even)?;
        comm.close(uneven)?;
        assert!(registration.is_valid());
        comm.deregister_buffer(registration)?;
        // Values that know the ranks are stale, and report it.
        let (from, mut to) = (comm.device().zeros::<u8>(3)?, comm.device().zeros::<u8>(3)?);
        let stale = comm.all_to_all_v(&from, &mut to, &splits).expect_err("it knows four ranks");
        assert!(matches!(stale, Error::Stale(_)), "{stale}");
        assert!(
            stale.to_string().contains("made when the communicator had other ranks"),
            "{stale}"
        );
        comm.barrier()?;
        // An earlier abort handle now refers to this one.
        if comm.rank().index() == 2 {
            assert!(handle.abort("enough"));
            assert!(matches!(comm.barrier(), Err(Error::Abort(_))));
        } else {
            assert!(until_it_fails(&comm).is_peer_failure());
        }
        comm.abort();
        Ok(())
    });
}

#[test]
fn deaths_during_recovery_are_recovered_from() {
    // One dies at once, one while the others look for each other, and one afterwards.
    ranks(5, |mut comm| {
        let own = comm.rank().index();
        if own == 2 {
            comm.abort();
            return Ok(());
        }
        until_it_fails(&comm);
        if own == 0 {
            drop(comm.abort());
            return Ok(());
        }
        comm.recover()?;
        if own == 4 {
            drop(comm.abort());
            return Ok(());
        }
        while comm.size() > 2 {
            until_it_fails(&comm);
            comm.recover()?;
        }
        adds_up(&comm)?;
        comm.finish()
    });
}

#[test]
fn who_does_not_come_is_left_out_at_the_deadline() {
    let (told, hears) = channel();
    let hears = Mutex::new(hears);
    ranks(3, move |mut comm| {
        if comm.rank().index() == 1 {
            hears.lock().expect("one listens").recv().expect("the others go on");
            let error = comm.recover().expect_err("it came too late");
            assert!(matches!(error, Error::Excluded(_)), "{error}");
            assert!(error.to_string().contains("did not come to `recover`"), "{error}");
            drop(comm.abort());
            return Ok(());
        }
        let recovery = comm.within(Duration::from_secs(3)).recover()?;
        assert_eq!(recovery.lost[0].rank.index(), 1);
        adds_up(&comm)?;
        comm.finish()?;
        told.send(()).expect("it listens");
        Ok(())
    });
}

#[test]
fn a_revoked_communicator_is_shrunk() {
    ranks(4, |comm| {
        let own = comm.rank().index();
        let comm = if own == 0 {
            comm.revoke_because("this takes too long")
        } else {
            let error = until_it_fails(&comm);
            assert!(matches!(error, Error::Revocation(_)) && error.is_peer_failure(), "{error}");
            let text = error.to_string();
            assert!(text.contains("rank 0: this takes too long (at tests/survive.rs"), "{text}");
            comm.revoke()
        };
        let comm: Communicator<_, Revoked> = comm;
        if own == 3 {
            comm.abort();
            return Ok(());
        }
        let comm = comm.shrink(&[3])?;
        assert_eq!(comm.size(), 3);
        adds_up(&comm)?;
        comm.finish()
    });
}

#[test]
fn a_well_communicator_is_shrunk_when_its_work_is_over() {
    ranks(4, |mut comm| {
        let mut x = comm.device().from_slice(&[1_u64])?;
        let window = comm.window::<u8>(4)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        if comm.rank().index() == 0 {
            // It gets the error when the others have continued.
            assert_eq!(x.to_vec()?, [4]);
            let error = until_it_fails(&comm);
            assert!(matches!(error, Error::Revocation(_)), "{error}");
            let excluded = comm.recover().expect_err("the others went on");
            assert!(matches!(excluded, Error::Excluded(_)), "{excluded}");
            comm.abort();
            return Ok(());
        }
        let mut comm = comm.shrink(&[0])?;
        assert_eq!(x.to_vec()?, [4]);
        adds_up(&comm)?;
        comm.close(window)?;
        comm.finish()
    });
}

/// As in the example of `shrink`.
#[test]
fn one_that_is_left_out_stays_until_the_others_have_agreed() {
    ranks(4, |comm| {
        let own = comm.rank().index();
        if own == 3 {
            return match comm.barrier() {
                Err(Error::Revocation(_)) => {
                    comm.abort();
                    Ok(())
                }
                other => other,
            };
        }
        // The last of the others comes late.
        std::thread::sleep(Duration::from_millis(if own == 0 { 50 } else { 0 }));
        let comm = comm.shrink(&[3])?;
        adds_up(&comm)?;
        comm.finish()
    });
}

#[test]
fn bad_lists_are_refused_and_the_communicator_comes_back() {
    ranks(2, |comm| {
        let failed = comm.try_shrink(&[7]).expect_err("there is no such rank");
        assert!(matches!(failed.error, Error::NoSuchRank(_)), "{}", failed.error);
        let own = failed.value.rank().index();
        let failed = failed.value.try_shrink(&[own]).expect_err("it leaves itself out");
        assert!(matches!(failed.error, Error::Excluded(_)), "{}", failed.error);
        adds_up(&failed.value)?;
        failed.value.finish()
    });
}

/// The parent stays, and its counted exchanges still fit together on all ranks.
#[test]
fn a_child_without_some_ranks_leaves_its_parent() {
    ranks(4, |mut world| {
        let own = world.rank().index();
        for round in 0..3_u64 {
            if own != 2 {
                let child = world.shrink_child::<Rest>(&[2])?;
                assert_eq!((child.rank().index(), child.size()), (own - usize::from(own > 2), 3));
                let mut x = child.device().from_slice(&[own as u64 + round])?;
                child.all_reduce_in_place(&mut x, Sum)?;
                assert_eq!(x.to_vec()?, [4 + 3 * round]);
                if round == 1 {
                    // In any order, as the child owns its resources.
                    adds_up(&world)?;
                    child.barrier()?;
                }
                child.finish()?;
            }
            if own == 2 || round != 1 {
                adds_up(&world)?;
            }
        }
        // Groups that overlap, and one rank alone.
        if own < 3 {
            let first = world.shrink_child::<Rest>(&[3])?;
            adds_up(&first)?;
        }
        if own > 0 {
            let last = world.shrink_child::<Rest>(&[0, 0])?;
            adds_up(&last)?;
        }
        let alone = world.shrink_child::<Rest>(&others(4, own))?;
        assert_eq!(alone.size(), 1);
        alone.finish()?;
        let bad = world.shrink_child::<Rest>(&[7]).expect_err("there is no such rank");
        assert!(matches!(bad, Error::NoSuchRank(_)), "{bad}");
        let bad = world.shrink_child::<Rest>(&[own]).expect_err("it leaves itself out");
        assert!(matches!(bad, Error::Excluded(_)), "{bad}");
        adds_up(&world)?;
        world.finish()
    });
}

fn others(size: usize, own: usize) -> Vec<usize> {
    (0..size).filter(|rank| *rank != own).collect()
}

#[test]
fn a_member_that_does_not_come_is_waited_for_until_the_deadline() {
    ranks(3, |mut world| {
        let own = world.rank().index();
        let short = CommConfig::builder().deadline(Duration::from_millis(200)).build();
        if own == 0 {
            let error = world.shrink_child_with::<Rest>(&[2], short).expect_err("1 does not come");
            assert!(matches!(error, Error::Timeout(_)), "{error}");
        }
        // The parent is as it was.
        adds_up(&world)?;
        if own == 1 {
            let error = world.shrink_child::<Rest>(&[2]).expect_err("0 has given up");
            assert!(error.is_peer_failure(), "{error}");
        }
        adds_up(&world)?;
        // They are in step again.
        if own < 2 {
            adds_up(&world.shrink_child::<Rest>(&[2])?)?;
        }
        world.finish()
    });
}

#[test]
fn a_child_that_borrows_its_parent_shares_its_fate() {
    ranks(3, |mut world| {
        if world.rank().index() < 2 {
            let child = world.shrink_shared::<Rest>(&[2])?;
            child.barrier()?;
            match child.rank().index() {
                0 => drop(child.abort()),
                _ => {
                    let error = child.barrier().expect_err("it was aborted");
                    assert!(error.is_peer_failure(), "{error}");
                }
            }
        }
        world.barrier().expect_err("the family has ended");
        world.abort();
        Ok(())
    });
}

#[test]
fn members_that_ask_for_different_children_are_told() {
    ranks(3, |mut world| {
        let own = world.rank().index();
        if own < 2 {
            let config = CommConfig::builder().contexts(1 + own as u32).build();
            let error = world.shrink_child_with::<Rest>(&[2], config).expect_err("they differ");
            assert!(matches!(error, Error::InitFailed(_)), "{error}");
        }
        adds_up(&world)?;
        world.finish()
    });
}

#[test]
fn ranks_go_on_with_another_configuration() {
    ranks(3, |comm| {
        let more = || CommConfig::builder().contexts(2).deadline(Duration::from_secs(33)).build();
        if comm.rank().index() == 2 {
            let error = until_it_fails(&comm);
            assert!(error.is_peer_failure(), "{error}");
            comm.abort();
            return Ok(());
        }
        assert!(comm.signal_in(1, 0).is_err());
        let comm = comm.shrink_with(&[2], more())?;
        assert!(comm.signal_in(1, 0).is_ok());
        adds_up(&comm)?;
        let failed = comm.try_shrink_with(&[5], CommConfig::default()).expect_err("no rank 5");
        assert!(failed.value.signal_in(1, 0).is_ok());
        adds_up(&failed.value)?;
        failed.value.finish()
    });
}

#[test]
fn a_handle_revokes_from_another_thread() {
    ranks(3, |mut comm| {
        if comm.rank().index() == 1 {
            let handle = comm.abort_handle();
            std::thread::spawn(move || assert!(handle.revoke("a new node has come")));
        }
        let error = until_it_fails(&comm);
        assert!(error.to_string().contains("a new node has come (at tests/survive.rs"), "{error}");
        comm.recover()?;
        adds_up(&comm)?;
        comm.finish()
    });
}

#[test]
fn a_handle_ends_the_wait_for_the_survivors() {
    let (recovers, gone) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    ranks(2, move |mut comm| {
        if comm.rank().index() == 0 {
            let (handle, recovers) = (comm.abort_handle(), recovers.clone());
            std::thread::spawn(move || {
                recovers.wait();
                // By now, or soon, it waits.
                std::thread::sleep(Duration::from_millis(20));
                handle.abort("enough")
            });
            let error = comm.recover().expect_err("the other one does not come");
            assert!(matches!(error, Error::Abort(_)), "{error}");
            comm.abort();
            gone.wait();
            return Ok(());
        }
        let error = until_it_fails(&comm);
        assert!(matches!(error, Error::Revocation(_)), "{error}");
        recovers.wait();
        gone.wait();
        let recovery = comm.recover()?;
        assert!(recovery.lost[0].why.contains("it was aborted"), "{recovery}");
        comm.finish()
    });
}

#[test]
fn ranks_agree_on_what_they_have() -> Result<()> {
    spmd::<Host>(4, |place| {
        let comm = place.init()?;
        let step = [7_u64, 9, 9, 8][comm.rank().index()];
        let steps = comm.agree(step)?;
        assert_eq!((*steps.min(), *steps.max()), (7, 9));
        assert_eq!((steps.rank_of_min().index(), steps.rank_of_max().index()), (0, 1));
        assert_eq!(steps.values(), [7, 9, 9, 8]);
        assert!(!steps.is_unanimous() && comm.agree("ready".to_owned())?.is_unanimous());
        comm.finish()
    })
}

#[test]
fn children_of_a_split_recover_for_themselves() {
    ranks(4, |mut world| {
        let own = world.rank().index();
        let mut pair = world.split::<Pair>(own as u32 / 2, 0)?;
        pair.barrier()?;
        world.barrier()?;
        if own == 0 {
            pair.abort();
            drop(world.abort());
            return Ok(());
        }
        if own == 1 {
            until_it_fails(&pair);
            pair.recover()?;
            assert_eq!(pair.size(), 1);
        }
        adds_up(&pair)?;
        until_it_fails(&world);
        world.recover()?;
        assert_eq!(world.size(), 3);
        adds_up(&world)?;
        pair.finish()?;
        world.finish()
    });
}
