//! One process for each GPU: started by `launch!`, and as torchrun starts them.

use std::env;
use std::net::TcpListener;
use std::process::{Child, Command};

use crate::graphs::body;
use typed_nccl::{Communicator, Device, Error, Result, Sum, launch};

/// Marks a process that a test has started.
const STARTED: &str = "TYPED_NCCL_GPU_LAUNCHED";

pub(crate) fn a_process_for_each_gpu() -> Result<()> {
    if env::var_os(STARTED).is_some() {
        return launch!(adds);
    }
    let mut command = again()?;
    command.env("TYPED_NCCL", "cuda:2");
    all_succeed(vec![command.spawn().map_err(Error::other)?])
}

pub(crate) fn processes_that_suspend() -> Result<()> {
    if env::var_os(STARTED).is_some() {
        return launch!(suspends);
    }
    let mut command = again()?;
    command.env("TYPED_NCCL", "cuda:2");
    all_succeed(vec![command.spawn().map_err(Error::other)?])
}

pub(crate) fn processes_that_capture() -> Result<()> {
    match env::var(STARTED).as_deref() {
        Ok("puts") => return launch!(puts_and_waits),
        Ok(_) => return launch!(launches_again),
        Err(_) => {}
    }
    let puts = if crate::windows::one_sided()? { Some("puts") } else { None };
    for what in ["sums"].into_iter().chain(puts) {
        let mut command = again()?;
        command.env("TYPED_NCCL", "cuda:2").env(STARTED, what);
        all_succeed(vec![command.spawn().map_err(Error::other)?])?;
    }
    Ok(())
}

fn launches_again<D: Device>(comm: Communicator<D>) -> Result<()> {
    body::launched_again(comm)
}

fn puts_and_waits<D: Device>(comm: Communicator<D>) -> Result<()> {
    body::puts_and_waits(comm)
}

fn suspends<D: Device>(comm: Communicator<D>) -> Result<()> {
    crate::survive::suspends(comm)
}

pub(crate) fn processes_of_torchrun() -> Result<()> {
    if env::var_os(STARTED).is_some() {
        return launch!(adds);
    }
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::other)?;
    let port = listener.local_addr().map_err(Error::other)?.port().to_string();
    let start = |rank: usize| {
        let mut command = again()?;
        command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
        command.env("WORLD_SIZE", "2").env("TORCHELASTIC_RUN_ID", "none");
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
        command.spawn().map_err(Error::other)
    };
    // torchrun's own store holds the port that long.
    let outcome = (0..2).map(start).collect::<Result<_>>().and_then(all_succeed);
    drop(listener);
    outcome
}

/// This test, in another process.
fn again() -> Result<Command> {
    let mut command = Command::new(env::current_exe().map_err(Error::other)?);
    command.env(STARTED, "yes");
    Ok(command)
}

fn all_succeed(started: Vec<Child>) -> Result<()> {
    for mut child in started {
        let status = child.wait().map_err(Error::other)?;
        if !status.success() {
            return Err(Error::other(format!("a process ended with {status}")));
        }
    }
    Ok(())
}

/// On every rank: numbers of the host and numbers of the GPUs.
fn adds<D: Device>(comm: Communicator<D>) -> Result<()> {
    let rank = comm.rank().index();
    let ordinals = comm.gather_values(&(rank, comm.device().ordinal()))?;
    let second = if crate::runner::shared() > 1 { 0 } else { 1 };
    assert_eq!(ordinals, [(0, 0), (1, second)]);
    for len in [1, 1 << 10, 1 << 20] {
        let mut x = comm.device().from_slice(&vec![rank as u64 + 1; len])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert!(x.to_vec()?.iter().all(|&x| x == 3));
    }
    comm.barrier()?;
    comm.finish()
}
