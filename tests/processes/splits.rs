//! Communicators that are divided, between processes and between threads: NCCL's calls, the
//! children, and failed divisions.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fake_nccl::{Fake, File};
use nccl_sys::Function::{
    ncclCommGetAsyncError, ncclCommInitRankConfig, ncclCommShrink, ncclCommSplit,
};
use nccl_sys::{ENVIRONMENT, Function, Version, ncclResult_t};
use typed_nccl::{CommConfig, Communicator, Device, Error, Result, Sum, World, launch, tag};

use crate::machine::{Run, Test, lines, output, release, says};
use crate::ranks::{Ended, Ranks};

tag!(Half, Quarter, Other);

pub(crate) const TESTS: &[Test] = &[
    Test { name: "children", program: || launch!(children), test: both },
    Test {
        name: "shared_children",
        program: || {
            launch!(shared_children, CommConfig::builder().split_share(true).build())?;
            launch!(the_end_of_a_shared_child, CommConfig::builder().split_share(true).build())
        },
        test: both,
    },
    Test { name: "children_that_differ", program: || launch!(differ), test: both },
    Test {
        name: "one_rank_that_nccl_refuses_a_child",
        program: || launch!(refused),
        test: |run| {
            both(run);
            // A release without `ncclCommRevoke` keeps the others' threads, and so its destructors
            // do not return.
            let nccl = release(Version::new(2, 27, 7));
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:4").env(ENVIRONMENT, nccl.path());
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            says(&ended.stderr, &["without the destructors"]);
        },
    },
    Test { name: "those_who_go_on_are_divided_off", program: || launch!(shrinks), test: both },
    Test {
        name: "a_child_without_some_ranks_leaves_its_parent",
        program: || launch!(leaves_out),
        test: both,
    },
    Test {
        name: "a_member_that_dies_before_it_comes_is_named",
        program: || launch!(dies_before),
        test: |run| {
            let ended = Ranks::start(4, |_| run.on_gpus()).ended();
            for (rank, ended) in ended.iter().enumerate().filter(|(rank, _)| *rank != 1) {
                let said = &ended.said;
                assert!(ended.status.success(), "rank {rank}: {said}");
                assert!(said.contains("lost [1] on World"), "rank {rank}: {said}");
                assert!(!said.contains("without the destructors"), "rank {rank}: {said}");
            }
        },
    },
    Test {
        name: "those_who_go_on_come_by_an_id_where_nccl_refuses",
        program: || launch!(shrinks_refused),
        test: |run| {
            let ended = output({
                let mut command = run.on_gpus();
                command.env("TYPED_NCCL", "cuda:4");
                command
            });
            assert!(ended.status.success(), "{ended:?}");
            // No thread remains inside NCCL.
            let errors = String::from_utf8_lossy(&ended.stderr);
            assert!(!errors.contains("without the destructors"), "{errors}");
            // Before 2.27 children join by a new id.
            let nccl = release(Version::new(2, 26, 5));
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:4").env(ENVIRONMENT, nccl.path());
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test { name: "a_child_past_its_deadline", program: || launch!(late), test: both },
    Test {
        name: "a_member_that_comes_after_the_others_gave_up_is_told",
        program: || launch!(gives_up),
        test: |run| {
            for (rank, ended) in Ranks::start(3, |_| run.on_gpus()).ended().iter().enumerate() {
                let said = &ended.said;
                assert!(ended.status.success(), "rank {rank}: {said}");
                assert!(said.contains(&format!("rank {rank} was told")), "rank {rank}: {said}");
            }
        },
    },
    Test {
        name: "a_child_that_is_made_outlives_a_process_of_its_parent",
        program: || launch!(dies_after),
        test: |run| {
            let ended = Ranks::start(4, |_| run.on_gpus()).ended();
            for rank in [0, 2] {
                let Ended { said, status, .. } = &ended[rank];
                assert!(status.success() && said.contains("all is well"), "rank {rank}: {said}");
                assert!(said.contains("lost [1] on World"), "rank {rank}: {said}");
            }
        },
    },
    Test {
        name: "a_process_that_dies_while_it_splits",
        program: || launch!(dies),
        test: |run| {
            let ended = Ranks::start(4, |_| run.on_gpus()).ended();
            for (rank, ended) in ended.iter().enumerate().filter(|(rank, _)| *rank != 1) {
                let said = &ended.said;
                assert!(ended.status.success(), "rank {rank}: {said}");
                // Rank 3 learns of it in its child or in the parent.
                let lost = if rank == 3 { "lost [" } else { "lost [1] on World" };
                assert!(said.contains(lost) && said.contains("process"), "rank {rank}: {said}");
                assert!(!said.contains("without the destructors"), "rank {rank}: {said}");
            }
            assert!(!ended[1].status.success());
        },
    },
    Test {
        name: "a_process_that_dies_at_any_moment_of_many_splits",
        program: || launch!(splits_for_ever),
        test: |run| {
            for turn in 0..4 {
                let mut ranks = Ranks::start(3, |_| run.on_gpus());
                for rank in 0..3 {
                    ranks.hears(rank, "begins");
                }
                thread::sleep(Duration::from_millis(130 * turn));
                let victim = turn as usize % 3;
                ranks.kill(victim);
                for (rank, ended) in ranks.ended().iter().enumerate() {
                    let well = ended.status.success() && ended.said.contains("lost [");
                    assert!(rank == victim || well, "turn {turn}, rank {rank}: {}", ended.said);
                }
            }
        },
    },
];

/// As four processes and as four threads; every rank reports success.
fn both(run: &Run) {
    for kind in ["cuda:4", "cuda-threads:4"] {
        let mut command = run.on_gpus();
        command.env("TYPED_NCCL", kind);
        let ended = output(command);
        assert!(ended.status.success(), "{kind}: {ended:?}");
        // No thread remains inside NCCL.
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(!errors.contains("without the destructors"), "{kind}: {errors}");
        let well = lines(&ended.stdout).iter().filter(|line| line.ends_with("all is well")).count();
        assert!(well > 0 && well % 4 == 0, "{kind}: {ended:?}");
    }
}

/// The double that this process has loaded.
fn nccl() -> Fake {
    File::at(env::var_os(ENVIRONMENT).expect("the test names the double")).load()
}

/// How often this rank, or all ranks of the process, called a function.
fn count(function: Function) -> usize {
    nccl().called().iter().filter(|called| **called == function).count()
}

/// How many ranks this process has.
fn here() -> usize {
    if env::var("TYPED_NCCL").is_ok_and(|kind| kind.starts_with("cuda-threads")) { 4 } else { 1 }
}

fn well<W: World>(comm: &Communicator<W>) {
    println!("rank {}: all is well", comm.rank());
}

fn sum<W: World>(comm: &Communicator<W>, own: usize) -> Result<usize> {
    let mut x = comm.device().from_slice(&[own as u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    Ok(x.to_vec()?[0] as usize)
}

/// Halves with their ranks in reverse, halves of those, one rank without a child; the parent
/// continues.
fn children<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    assert_eq!(sum(&world, 1)?, 4);
    let mut half = world.split::<Half>(rank as u32 % 2, -(rank as i64))?;
    assert_eq!((half.rank().index(), half.size()), (1 - rank / 2, 2));
    assert_eq!(sum(&half, rank)?, 2 + rank % 2 * 2);
    let alone = half.split::<Quarter>(u32::MAX - rank as u32, i64::MIN)?;
    assert_eq!((sum(&alone, rank)?, alone.size()), (rank, 1));
    // Children own what they use.
    half.finish()?;
    assert_eq!(sum(&alone, rank)?, rank);
    alone.finish()?;
    let some = world.split_some::<Other>((rank != 2).then_some(7), 0)?;
    assert_eq!(some.is_some(), rank != 2);
    assert_eq!(sum(&world, rank)?, 6);
    if let Some(some) = some {
        assert_eq!(sum(&some, rank)?, 4);
        some.finish()?;
    }
    let config = CommConfig::builder().contexts(2).signals(3).build();
    let mut wide = world.split_with::<Half>(0, 0, config)?;
    let window = wide.window::<u64>(1)?;
    assert!(wide.signal_in(1, 2).is_ok());
    wide.close(window)?;
    wide.finish()?;
    world.barrier()?;
    assert_eq!((count(ncclCommInitRankConfig), count(ncclCommSplit)), (here(), 4 * here()));
    world.barrier()?;
    well(&world);
    world.finish()
}

/// One after the other, and one that outlives its parent.
fn shared_children<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    for turn in 0..3 {
        let child = world.split_shared::<Half>(rank as u32 / 2, 0)?;
        assert_eq!(sum(&child, turn)?, 2 * turn);
        child.finish()?;
        assert_eq!(sum(&world, 1)?, 4);
    }
    // NCCL would make it share resources that end with the parent, so it has its own id.
    let owned = world.split::<Half>(rank as u32 / 2, 0)?;
    world.barrier()?;
    assert_eq!((count(ncclCommInitRankConfig), count(ncclCommSplit)), (2 * here(), 3 * here()));
    world.barrier()?;
    well(&world);
    world.finish()?;
    assert_eq!(sum(&owned, 1)?, 2);
    owned.finish()
}

/// NCCL aborts all of them together: the parent reports it.
fn the_end_of_a_shared_child<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let child = world.split_shared::<Half>(0, 0)?;
    child.barrier()?;
    if child.rank().index() == 1 {
        drop(child.abort_because("the child goes"));
    } else {
        let error = child.barrier().expect_err("rank 1 is gone");
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
        drop(child);
    }
    let error = sum(&world, 1).expect_err("it went with its child");
    assert!(error.to_string().contains("the child goes"), "{error}");
    well(&world);
    Ok(())
}

/// One error on every rank, including those of the other child, and no other effect.
fn differ<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    let (color, is_odd_one) = (rank as u32 % 2, rank == 3);
    let config = CommConfig::builder().signals(if is_odd_one { 2 } else { 1 }).build();
    let outcome = world.split_with::<Half>(color, 0, config).map(drop);
    tell(&world, outcome, "(1, 1) and (1, 2) contexts and signals")?;
    let config = CommConfig::builder().split_share(is_odd_one).build();
    let outcome = world.split_with::<Half>(color, 0, config).map(drop);
    let words = "configure `CommConfig::split_share` (NCCL's splitShare) with NCCL's choice and 1";
    tell(&world, outcome, words)?;
    let outcome = match is_odd_one {
        true => world.split::<Other>(color, 0).map(drop),
        false => world.split::<Half>(color, 0).map(drop),
    };
    tell(&world, outcome, "name it differently, Half and Other")?;
    let outcome = match is_odd_one {
        true => world.split_shared::<Half>(color, 0).map(drop),
        false => world.split::<Half>(color, 0).map(drop),
    };
    tell(&world, outcome, "`split_shared` and `split`")?;
    let config = CommConfig::builder().contexts(1 << 13).signals(1 << 13).build();
    let error = world.split_with::<Half>(color, 0, config).map(drop).expect_err("too many");
    assert!(error.to_string().contains("configure fewer"), "{error}");
    assert_eq!(count(ncclCommSplit), 0);
    assert_eq!(sum(&world, 1)?, 4);
    well(&world);
    world.finish()
}

fn tell<W: World>(world: &Communicator<W>, outcome: Result<()>, words: &str) -> Result<()> {
    let error = outcome.expect_err("they differ");
    assert!(matches!(error, Error::InitFailed(_)), "{error}");
    let error = error.to_string();
    assert!(error.contains("ranks 1 and 3 give one colour, 1, when World is split"), "{error}");
    assert!(error.contains(words), "{error}");
    let all = world.gather_values(&error)?;
    assert!(all.iter().all(|other| *other == error), "{all:?}");
    Ok(())
}

/// NCCL fails on one rank: the others are freed, and all know why.
fn refused<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    assert_eq!(sum(&world, 1)?, 4);
    if rank == 1 {
        nccl().fail(ncclCommSplit, ncclResult_t::ncclSystemError);
    }
    world.barrier()?;
    let error = world.split::<Half>(rank as u32 % 2, 0).map(drop).expect_err("one fails");
    // Of four threads, the first to call fails.
    let failed = matches!(error, Error::NcclFailed(_));
    assert!(failed || matches!(error, Error::PeerFailed(_)), "{error}");
    assert!(error.to_string().contains("ncclSystemError"), "{error}");
    assert!(here() == 4 || failed == (rank == 1), "{error}");
    assert!(world.health().is_err());
    well(&world);
    Ok(())
}

/// Rank 3 is left out of a healthy communicator, with everything made with it.
fn shrinks<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    let window = world.window::<u64>(2)?;
    let tripled = world.pre_mul_sum(3_u64)?;
    assert_eq!(sum(&world, 1)?, 4);
    world.barrier()?;
    if rank == 3 {
        let error = world.barrier().expect_err("the others go on");
        assert!(matches!(error, Error::Revocation(_)), "{error}");
        assert!(matches!(world.recover(), Err(Error::Excluded(_))));
        world.abort();
        println!("rank 3: all is well");
        return Ok(());
    }
    let mut rest = world.shrink(&[3])?;
    assert_eq!((rest.rank().index(), rest.size()), (rank, 3));
    assert_eq!(sum(&rest, rank)?, 3);
    let mut x = rest.device().from_slice(&[1_u64])?;
    rest.all_reduce_in_place(&mut x, &tripled)?;
    assert_eq!(x.to_vec()?, [9]);
    rest.put_signal(window.slice(0..1), rest.ring(1), window.at(1))?;
    rest.wait_signal(rest.ring(-1))?;
    rest.sync(rest.stream())?;
    rest.close(window)?;
    rest.barrier()?;
    let api = nccl().api().map_err(Error::other)?;
    let divides = api.has(ncclCommShrink);
    let called = if here() == 4 { 3 } else { 1 };
    let all = nccl().called();
    assert!(!divides || all.contains(&ncclCommShrink), "{all:?}");
    assert_eq!(count(ncclCommShrink), if divides { called } else { 0 });
    let joined = count(ncclCommInitRankConfig);
    assert_eq!(joined, here() + if divides { 0 } else { called });
    // Once more, and then a poisoned one, which never divides.
    rest.barrier()?;
    if rank == 0 {
        rest.barrier().expect_err("the others go on");
        rest.abort();
        println!("rank 0: all is well");
        return Ok(());
    }
    let rest = rest.revoke().shrink(&[0])?;
    assert_eq!((rest.rank().index(), sum(&rest, 1)?), (rank - 1, 2));
    assert_eq!(count(ncclCommShrink), if divides { called } else { 0 });
    well(&rest);
    rest.finish()
}

/// Rank 3 has no part in it, and the parent stays. A member comes late, by more than a heartbeat.
fn leaves_out<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    for round in 0..2 {
        if rank == 1 && round == 1 {
            thread::sleep(Duration::from_secs(4));
        }
        if rank < 3 {
            let child = world.shrink_child::<Half>(&[3])?;
            assert_eq!((child.rank().index(), child.size()), (rank, 3));
            assert_eq!(sum(&child, rank)?, 3);
            child.barrier()?;
            child.finish()?;
        }
        assert_eq!(sum(&world, 1)?, 4);
    }
    // A split after it, and groups that overlap.
    let halves = world.split::<Half>(rank as u32 / 2, 0)?;
    assert_eq!(sum(&halves, 1)?, 2);
    halves.finish()?;
    if rank != 1 {
        let child = world.shrink_child::<Quarter>(&[1])?;
        assert_eq!(sum(&child, 1)?, 3);
        child.finish()?;
    }
    world.barrier()?;
    // Each rank made its part of each child by NCCL's own call.
    let own = [3, 2, 3, 1][rank];
    assert_eq!(count(ncclCommShrink), if here() == 4 { 9 } else { own });
    well(&world);
    world.finish()
}

/// Rank 1 dies when the others wait for it; rank 3 has no part in it.
fn dies_before<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    assert_eq!(sum(&world, 1)?, 4);
    if rank == 1 {
        thread::sleep(Duration::from_millis(500));
        std::process::abort();
    }
    let error = match rank {
        3 => world.barrier().expect_err("rank 1 is gone"),
        _ => world.shrink_child::<Half>(&[3]).map(drop).expect_err("rank 1 is gone"),
    };
    lost(&error);
    drop(world.abort());
    Ok(())
}

/// Rank 2 comes to the child when rank 1 has given up; rank 0 has no part in it.
fn gives_up<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    assert_eq!(sum(&world, 1)?, 3);
    let mut error = Ok(());
    while rank != 1 && error.is_ok() {
        // Until it hears of it; nobody else calls it.
        thread::sleep(Duration::from_millis(20));
        error = world.health().map(drop);
    }
    if rank != 0 {
        let mut world = world.within(Duration::from_secs(1));
        error = world.shrink_child::<Half>(&[0]).map(drop);
    }
    let error = error.expect_err("rank 2 is late");
    if rank == 1 {
        assert!(matches!(error, Error::Timeout(_)), "{error}");
    }
    assert!(world.shrink_child::<Half>(&[0]).is_err());
    println!("rank {rank} was told");
    drop(world.abort());
    Ok(())
}

/// NCCL refuses one rank's part.
fn shrinks_refused<D: Device>(world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    assert_eq!(sum(&world, 1)?, 4);
    if rank == 1 {
        nccl().fail(ncclCommShrink, ncclResult_t::ncclSystemError);
    }
    world.barrier()?;
    if rank == 3 {
        let error = world.barrier().expect_err("the others go on");
        assert!(error.is_peer_failure(), "{error}");
        world.abort();
        println!("rank 3: all is well");
        return Ok(());
    }
    let rest = world.shrink(&[3])?;
    assert_eq!((rest.rank().index(), sum(&rest, 1)?), (rank, 3));
    well(&rest);
    rest.finish()
}

/// One rank's NCCL call takes longer than the others wait.
fn late<D: Device>(mut world: Communicator<D>) -> Result<()> {
    static GAVE_UP: AtomicBool = AtomicBool::new(false);
    let rank = world.rank().index();
    if rank == 1 {
        nccl().before(|function| {
            let is_late = thread::current().name() == Some("NCCL split of rank 1");
            while function == ncclCommSplit && is_late && !GAVE_UP.load(Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
        });
    }
    world.barrier()?;
    let outcome = {
        let mut world = world.within(Duration::from_secs(2));
        match rank {
            0 => world.split_some::<Half>(None, 0).map(drop),
            _ => world.split::<Half>(0, 0).map(drop),
        }
    };
    if rank == 1 {
        // The others hear of it.
        thread::sleep(Duration::from_secs(3));
        GAVE_UP.store(true, Relaxed);
    }
    let error = outcome.expect_err("it takes too long");
    assert!(matches!(error, Error::Timeout(_) | Error::PeerFailed(_)), "{error}");
    assert!(error.to_string().contains("the backend is still"), "{error}");
    assert!(world.health().is_err());
    well(&world);
    Ok(())
}

fn lost(error: &Error) {
    let Error::PeerFailed(failed) = error else { panic!("{error}") };
    let lost: Vec<_> = failed.lost.iter().map(|rank| rank.index()).collect();
    println!("lost {lost:?} on {}: {error}", failed.name);
}

/// Rank 1 dies when NCCL makes all ranks wait for it.
fn dies<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let rank = world.rank().index();
    assert_eq!(sum(&world, 1)?, 4);
    if rank == 1 {
        nccl().before(|function| {
            if function == ncclCommSplit {
                // The others are inside NCCL.
                thread::sleep(Duration::from_millis(500));
                std::process::abort();
            }
        });
    }
    let error = world.split::<Half>(rank as u32 % 2, 0).map(drop).expect_err("rank 1 is gone");
    lost(&error);
    assert!(world.health().is_err());
    drop(world.abort());
    Ok(())
}

/// Rank 1 dies when it has its child, before rank 0 polls for its own.
fn dies_after<D: Device>(mut world: Communicator<D>) -> Result<()> {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    let rank = world.rank().index();
    assert_eq!(sum(&world, 1)?, 4);
    if rank == 0 {
        nccl().before(|function| match function {
            ncclCommSplit => {
                LOOKS.store(1, Relaxed);
                while LOOKS.load(Relaxed) < 2 {
                    thread::yield_now();
                }
            }
            // The rank's own thread polls whether it is made.
            ncclCommGetAsyncError if LOOKS.load(Relaxed) == 1 => {
                LOOKS.store(2, Relaxed);
                thread::sleep(Duration::from_millis(500));
            }
            _ => {}
        });
    }
    let half = world.split::<Half>(rank as u32 % 2, 0)?;
    if rank == 1 {
        std::process::abort();
    }
    if rank.is_multiple_of(2) {
        assert_eq!(sum(&half, rank)?, 2);
        half.finish()?;
        well(&world);
    }
    lost(&world.barrier().expect_err("rank 1 is gone"));
    Ok(())
}

fn splits_for_ever<D: Device>(mut world: Communicator<D>) -> Result<()> {
    println!("begins");
    let rank = world.rank().index();
    for turn in 0.. {
        let mut outcome = || {
            let child = world.split_some::<Half>((rank != turn % 3).then_some(1), 0)?;
            match child {
                Some(child) => sum(&child, 1).and_then(|_| child.finish()),
                None => Ok(()),
            }
        };
        if let Err(error) = outcome() {
            lost(&error);
            break;
        }
    }
    Ok(())
}
