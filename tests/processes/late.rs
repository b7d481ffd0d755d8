//! A late rank, between processes and between threads: which ranks name it, which leave it out, and
//! the watch's reports.

use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use typed_nccl::error::Deadline;
use typed_nccl::{
    Change, CommConfig, Communicator, Device, Error, Result, Stragglers, Sum, World, launch, tag,
};

use crate::machine::{Run, Test, wait};

tag!(Named, Strict, Brief);

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a_rank_that_is_late",
    program: || launch!(late),
    test: |run: &Run| {
        // Both at once, as most of the time is waiting.
        let started = ["cuda:3", "cuda-threads:3"].map(|kind| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", kind);
            (kind, command.spawn().expect("the program starts"))
        });
        for (kind, child) in started {
            let ended = wait(child);
            assert!(ended.status.success(), "{kind}: {ended:?}");
        }
    },
}];

fn adds_up<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [comm.size() as u64]);
    Ok(())
}

fn late<D: Device>(mut world: Communicator<D>) -> Result<()> {
    is_named(&mut world)?;
    is_left_out(&mut world)?;
    let mut brief = world.split::<Brief>(0, 0)?;
    // A timeout on one rank fails a split that another has not returned from.
    world.barrier()?;
    if world.rank().index() == 0 {
        match brief.within(Duration::from_millis(50)).barrier() {
            Err(Error::Timeout(timeout)) => {
                assert!(matches!(timeout.deadline, Deadline::Within(_)), "{timeout}");
            }
            outcome => panic!("the others do not come: {outcome:?}"),
        }
    }
    world.barrier()?;
    brief.abort();
    world.finish()
}

/// Rank 2 makes no call until the others have found it.
fn is_named<D: Device>(world: &mut Communicator<D>) -> Result<()> {
    let comm = world.split::<Named>(0, 0)?;
    adds_up(&comm)?;
    let mut x = comm.device().from_slice(&[1_u64])?;
    if comm.rank().index() != 2 {
        (0..3).try_for_each(|_| comm.all_reduce_in_place(&mut x, Sum))?;
        loop {
            let standing = comm.health()?;
            let late = standing.late().iter().find(|late| late.rank.index() == 2);
            if let Some(late) = late {
                // The first may not be known to be over on rank 2.
                assert!(matches!(late.operations, 3 | 4), "{standing}");
                assert!(late.since.elapsed() >= Duration::from_millis(100), "{standing}");
                break;
            }
            sleep(Duration::from_millis(1));
        }
    }
    world.barrier()?;
    if comm.rank().index() == 2 {
        (0..3).try_for_each(|_| comm.all_reduce_in_place(&mut x, Sum))?;
    }
    comm.sync(comm.stream())?;
    comm.finish()
}

/// Rank 2 makes no call until the others have continued.
fn is_left_out<D: Device>(world: &mut Communicator<D>) -> Result<()> {
    let (tell, told) = channel();
    let watch = move |change: &Change| drop(tell.send(change.clone()));
    let stragglers = Stragglers::LeaveOut(Duration::from_secs(3));
    let config = CommConfig::builder().stragglers(stragglers).watch(watch).build();
    let mut comm = world.split_with::<Strict>(0, 0, config)?;
    adds_up(&comm)?;
    comm.barrier()?;
    if comm.rank().index() == 2 {
        world.barrier()?;
        let error = adds_up(&comm).expect_err("the others went on");
        assert!(error.is_peer_failure(), "{error}");
        let error = comm.recover().expect_err("the others went on");
        assert!(matches!(error, Error::Excluded(_)), "{error}");
        comm.abort();
    } else {
        let error = adds_up(&comm).expect_err("one is missing");
        assert!(error.is_peer_failure(), "{error}");
        assert!(error.to_string().contains("rank 2 is late by 1 operation"), "{error}");
        let recovery = comm.recover()?;
        assert_eq!((comm.size(), recovery.lost[0].rank.index()), (2, 2), "{recovery}");
        assert!(recovery.lost[0].why.contains("rank 2 is late"), "{recovery}");
        adds_up(&comm)?;
        comm.finish()?;
        world.barrier()?;
    }
    let told: Vec<Change> = told.iter().collect();
    match told.as_slice() {
        [
            Change::Ready { size: 3, .. },
            Change::Failed(_),
            Change::Recovered(recovery),
            Change::Finished,
        ] if world.rank().index() != 2 => {
            assert_eq!(recovery.lost.len(), 1);
        }
        [Change::Ready { .. }, Change::Failed(_), Change::Abort { .. }]
            if world.rank().index() == 2 => {}
        _ => panic!("rank {} was told {told:?}", world.rank()),
    }
    Ok(())
}
