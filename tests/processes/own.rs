//! Processes that `launch!` starts itself.

use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{Communicator, Device, Error, Result, Sum, launch};

use crate::machine::{Test, lines, output, says, wait};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a_process_for_each_gpu_that_is_asked_for",
        program: greeting,
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:1");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            // The launcher itself does not reach the code after `launch!`.
            assert_eq!(lines(&ended.stdout), ["[0] after", "[0] rank 0 of 1 on cuda:0"]);
        },
    },
    Test {
        name: "threads_on_gpus",
        program: greeting,
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda-threads:2");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            let expected = ["after", "rank 0 of 2 on cuda:0", "rank 1 of 2 on cuda:1"];
            assert_eq!(lines(&ended.stdout), expected);
        },
    },
    Test {
        name: "more_than_there_are",
        program: greeting,
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:5");
            let ended = output(command);
            assert_eq!(ended.status.code(), Some(1));
            says(&ended.stderr, &["cuda:4 was asked for", "sees 4 GPUs"]);
        },
    },
    Test {
        name: "the_error_of_a_rank_is_the_launchers",
        program: || launch!(fails),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:1");
            let ended = output(command);
            assert_eq!(ended.status.code(), Some(1));
            says(
                &ended.stderr,
                &["[0] Error: the disk is full", "rank 0 (process ", "exit code 1"],
            );
        },
    },
    Test {
        name: "threads_that_survive_end_well",
        program: || launch!(survives),
        test: |run| {
            for ranks in ["host:4", "cuda-threads:4"] {
                for (asked, code) in [(ranks.to_owned(), 1), (format!("{ranks},survive"), 0)] {
                    let mut command = run.on_gpus();
                    command.env("TYPED_NCCL", &asked);
                    let ended = output(command);
                    assert_eq!(ended.status.code(), Some(code), "{asked}: {ended:?}");
                    says(&ended.stdout, &["3 of 4 went on"]);
                    let told = "typed-nccl: rank 1 failed: the disk is full; the others go on";
                    let said = String::from_utf8_lossy(&ended.stderr).contains(told);
                    assert_eq!(said, code == 0, "{asked}: {ended:?}");
                }
            }
            // No process remains.
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "host:1,survive");
            assert_eq!(output(command).status.code(), Some(1));
        },
    },
    Test {
        name: "a_rank_that_returns_without_finish_is_named",
        program: || launch!(returns),
        test: |run| {
            for asked in ["host:3", "host:3,processes"] {
                for _ in 0..5 {
                    let mut command = run.bare();
                    command.env("TYPED_NCCL", asked);
                    let ended = output(command);
                    assert_eq!(ended.status.code(), Some(1), "{asked}: {ended:?}");
                    says(&ended.stderr, &["rank 0 left: ", "dropped without `finish`"]);
                }
            }
        },
    },
    Test {
        name: "a_signal_reaches_the_ranks",
        program: || launch!(sleeps),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:1");
            let mut launcher = command.spawn().expect("it starts");
            let _rank = first_number(&mut launcher);
            signal(launcher.id(), "TERM");
            let ended = wait(launcher);
            assert_eq!(ended.status.code(), Some(128 + 15), "{ended:?}");
            says(&ended.stderr, &["the launcher was told to end by signal 15"]);
        },
    },
    Test {
        name: "ranks_die_with_their_launcher",
        program: || launch!(sleeps),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:1");
            let mut launcher = command.spawn().expect("it starts");
            let rank = first_number(&mut launcher);
            launcher.kill().expect("it can be killed");
            wait(launcher);
            let since = Instant::now();
            while is_running(rank) {
                assert!(since.elapsed() < Duration::from_secs(30), "process {rank} runs on");
                thread::sleep(Duration::from_millis(5));
            }
        },
    },
];

fn greeting() -> Result<()> {
    launch!(greets)?;
    println!("after");
    Ok(())
}

fn greets<D: Device>(comm: Communicator<D>) -> Result<()> {
    comm.barrier()?;
    println!("rank {} of {} on {:?}", comm.rank(), comm.size(), comm.device());
    comm.finish()
}

fn fails<D: Device>(_: Communicator<D>) -> Result<()> {
    Err(Error::other("the disk is full"))
}

/// Rank 0 returns, and the others finish.
fn returns<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1.0_f32])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [3.0]);
    if comm.rank().index() == 0 {
        return Ok(());
    }
    comm.finish()
}

/// Rank 1 fails, or the only rank, and the others continue.
fn survives<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    comm.barrier()?;
    let before = comm.size();
    if comm.rank().index() == 1 || before == 1 {
        return Err(Error::other("the disk is full"));
    }
    while comm.barrier().is_ok() {}
    comm.recover()?;
    let mut x = comm.device().from_slice(&[1_u32])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    if comm.rank().index() == 0 {
        println!("{} of {before} went on", x.to_vec()?[0]);
    }
    comm.finish()
}

/// Prints its process id, and does nothing more.
fn sleeps<D: Device>(comm: Communicator<D>) -> Result<()> {
    println!("{}", std::process::id());
    thread::sleep(Duration::from_secs(600));
    comm.finish()
}

/// The number in a line such as `[0] 123`.
fn first_number(launcher: &mut Child) -> u32 {
    let mut line = String::new();
    let out = launcher.stdout.as_mut().expect("it is a pipe");
    BufReader::new(out).read_line(&mut line).expect("it prints a line");
    let number = line.trim().strip_prefix("[0] ").and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{line}"))
}

fn signal(process: u32, signal: &str) {
    let arguments = [format!("-{signal}"), process.to_string()];
    let sent = std::process::Command::new("kill").args(arguments).status();
    assert!(sent.expect("there is such a program").success());
}

fn is_running(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z")
}
