//! A communicator of processes ends while another of theirs is at work.

use std::time::Duration;
use std::{process, thread};

use typed_nccl::{Change, CommConfig, Communicator, Device, Result, Sum, launch, tag};

use crate::machine::{Test, output};

tag!(Other);
tag!(Back);

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a_communicator_ends_before_the_other_rank_can_destroy_it",
        program: || launch!(ends),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:2");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "memory_is_not_freed_under_work_that_began_after_the_end",
        program: || launch!(works_on),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:2");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "a_process_that_ends_waits_for_one_that_cannot_destroy_yet",
        program: || launch!(ends_late),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:3");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(!said.contains("the process ends"), "{said}");
        },
    },
    Test {
        name: "a_forked_child_that_exits_ends_no_communicator",
        program: || {
            let watch = |change: &Change| println!("{} sees: {change}", process::id());
            launch!(forks, CommConfig::builder().watch(watch).build())
        },
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:2");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(said.contains(" sees: ") && !said.contains("the process ends"), "{said}");
        },
    },
];

/// Rank 1's GPU is at work for longer than what a process that ends waits for its own work.
fn ends_late<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let rank = comm.rank().index();
    let other = comm.split::<Other>(rank.min(1), 0)?;
    let mut x = comm.device().zeros::<u32>(1)?;
    // The first has them connect, which waits for both.
    match rank {
        0 => {}
        1 => (0..2).try_for_each(|_| other.recv(&mut x, 1))?,
        _ => other.send(&x, 0)?,
    }
    comm.finish()?;
    if rank == 2 {
        thread::sleep(Duration::from_secs(7));
        other.send(&x, 0)?;
    }
    other.finish()
}

/// The child has copies of the communicators, and none of the threads that would answer it.
fn forks<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u32])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.sync(comm.stream())?;
    // SAFETY: the child does nothing but exit.
    let child = match unsafe { libc::fork() } {
        0 => process::exit(0),
        child => child,
    };
    let mut status = 1;
    // SAFETY: the system writes the status, and the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    // This process still takes part.
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [4]);
    comm.finish()
}

/// Rank 1 ends `other` later than rank 0, whose GPU is then at work until rank 0 makes another call.
/// Freed then, the memory of `other` would hold that call up.
fn works_on<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let (other, back) = (comm.split::<Other>(0, 0)?, comm.split::<Back>(0, 0)?);
    let mut x = comm.device().from_slice(&[1_u32])?;
    // NCCL connects ranks in their first calls, which wait for each other.
    comm.all_reduce_in_place(&mut x, Sum)?;
    match comm.rank().index() {
        0 => {
            comm.send(&x, 1)?;
            back.recv(&mut x, 1)?;
        }
        _ => {
            comm.recv(&mut x, 0)?;
            back.send(&x, 0)?;
        }
    }
    comm.sync(comm.stream())?;
    back.sync(back.stream())?;
    if comm.rank().index() == 1 {
        // At work until rank 0 takes part.
        comm.all_reduce_in_place(&mut x, Sum)?;
        other.finish()?;
        comm.sync(comm.stream())?;
        thread::sleep(Duration::from_millis(500));
        comm.recv(&mut x, 0)?;
        back.send(&x, 0)?;
    } else {
        other.finish()?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let (stream, mut y) = (comm.device().stream()?, comm.device().zeros::<u32>(1)?);
        back.on(&stream).recv(&mut y, 1)?;
        thread::sleep(Duration::from_millis(1000));
        // The doubles take the driver's lock here, and not to launch the next.
        comm.stream().mark()?;
        comm.send(&x, 1)?;
        back.sync(&stream)?;
        assert_eq!(y.to_vec()?, [4]);
    }
    assert_eq!(x.to_vec()?, [4]);
    back.finish()?;
    comm.finish()
}

/// From 2.31 on NCCL destroys a communicator only when the other processes do, and rank 1 does once
/// its GPU is idle: after a call that rank 0 makes when it has ended its own.
fn ends<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let other = comm.split::<Other>(0, 0)?;
    let mut x = comm.device().from_slice(&[1.0_f32; 8])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.sync(comm.stream())?;
    if comm.rank().index() == 1 {
        comm.all_reduce_in_place(&mut x, Sum)?;
        other.finish()?;
    } else {
        other.finish()?;
        comm.all_reduce_in_place(&mut x, Sum)?;
    }
    assert_eq!(x.to_vec()?, [4.0; 8]);
    comm.finish()
}
