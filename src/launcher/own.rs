//! Our own launcher, `TYPED_NCCL=cuda:8` or `host:8,processes`, and its variables set by hand for a
//! launcher unknown here. docs/guide/src/processes.md has them.

use super::{Launcher, RendezvousAddress, Variables, never};
use crate::Result;
use crate::error::{LaunchFault, Launched};

pub(crate) const RANK: &str = "TYPED_NCCL_RANK";
pub(crate) const SIZE: &str = "TYPED_NCCL_SIZE";
pub(crate) const LOCAL_RANK: &str = "TYPED_NCCL_LOCAL_RANK";
/// Where rank 0 listens, as `host:port`. Valid under every launcher.
pub(crate) const ADDRESS: &str = "TYPED_NCCL_ADDRESS";
/// The file descriptor of a socket that already listens there for rank 0, so that no other program
/// takes its port.
pub(crate) const LISTENER: &str = "TYPED_NCCL_LISTENER";
/// How a rank reports its failure to our launcher: the file descriptor of a pipe, and the pipe's
/// number.
#[cfg(unix)]
pub(crate) const TELLS: &str = "TYPED_NCCL_TELLS";
/// The secret whose knowledge ranks prove to each other. Valid under every launcher.
#[cfg(unix)]
pub(crate) const SECRET: &str = "TYPED_NCCL_SECRET";

pub(super) const OWN: Launcher = Launcher {
    name: "typed-nccl's own launcher",
    marks: &[RANK, SIZE],
    but: never,
    rank: RANK,
    size: &[SIZE],
    local_rank: LOCAL_RANK,
    is_local_known: true,
    also: &[ADDRESS],
    depth: 5,
    with_address: "TYPED_NCCL_ADDRESS=node1:29400 program",
    place,
};

fn place(_: &Variables, launched: &Launched) -> Result<RendezvousAddress> {
    Err(LaunchFault::NoAddress { launched: launched.clone(), here: None }.into())
}
