//! Communicators of processes are suspended and resumed, and one dies meanwhile.

use std::thread;
use std::time::Duration;

use typed_nccl::{CommConfig, Communicator, Device, Result, launch};

use crate::machine::{Test, output};

#[path = "../suspend/body.rs"]
#[allow(dead_code, reason = "threads run all of it")]
mod body;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "processes_that_suspend_and_resume",
        program: || launch!(pauses),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:3");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "a_process_that_is_killed_while_it_is_suspended",
        program: || {
            let deadline = Duration::from_secs(20);
            launch!(waits_to_resume, CommConfig::builder().deadline(deadline).build())
        },
        test: |run| {
            let mut ranks = run.ranks(3);
            for rank in 0..3 {
                ranks.hears(rank, "is suspended");
            }
            ranks.kill(1);
            for (rank, ended) in
                ranks.ended().into_iter().enumerate().filter(|(rank, _)| *rank != 1)
            {
                assert!(ended.status.success(), "rank {rank}: {}", ended.said);
                assert!(ended.said.contains("went on"), "rank {rank}: {}", ended.said);
            }
        },
    },
];

fn pauses<D: Device>(comm: Communicator<D>) -> Result<()> {
    body::what_there_was_is_there_again(comm)
}

fn waits_to_resume<D: Device>(comm: Communicator<D>) -> Result<()> {
    let rank = comm.rank().index();
    let kept = comm.device().from_slice(&[rank as u32; 8])?;
    let comm = comm.suspend()?;
    println!("rank {rank} is suspended");
    if rank == 1 {
        thread::sleep(Duration::from_secs(60));
    }
    let failed = comm.try_resume().expect_err("rank 1 does not come");
    assert!(failed.error.is_peer_failure(), "{}", failed.error);
    let comm = failed.value.shrink(&[])?;
    assert_eq!(kept.to_vec()?, [rank as u32; 8]);
    body::adds_up(&comm)?;
    println!("rank {rank} went on");
    comm.finish()
}
