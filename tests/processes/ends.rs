//! A communicator of processes ends while another of theirs is at work.

use std::process;

use typed_nccl::{Change, CommConfig, Communicator, Device, Result, Sum, launch, tag};

use crate::machine::{Test, output};

tag!(Other);

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
