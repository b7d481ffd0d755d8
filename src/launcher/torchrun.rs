//! torchrun. PyTorch's documentation, "torchrun (Elastic Launch)", section "Environment Variables".

use super::{Launcher, RendezvousAddress, Variables, never};
use crate::Result;
use crate::error::{LaunchFault, Launched};

pub(super) const RUN_ID: &str = "TORCHELASTIC_RUN_ID";
pub(super) const MASTER: [&str; 2] = ["MASTER_ADDR", "MASTER_PORT"];

pub(super) const TORCHRUN: Launcher = Launcher {
    name: "torchrun",
    marks: &[RUN_ID],
    but: never,
    rank: "RANK",
    size: &["WORLD_SIZE"],
    local_rank: "LOCAL_RANK",
    is_local_known: true,
    also: &MASTER,
    depth: 4,
    with_address: "TYPED_NCCL_ADDRESS=node1:29400 torchrun .. program",
    place,
};

/// `MASTER_PORT` is taken: torchrun's own store listens there, or PyTorch's if the program uses
/// that too. A restarted job meets at a new place, so that leftovers of the old one do not answer.
pub(super) fn place(variables: &Variables, _: &Launched) -> Result<RendezvousAddress> {
    let [address, port] = MASTER.map(|name| variables.get(name).unwrap_or_default());
    let Some(number) = port.parse().ok().filter(|port| *port > 0) else {
        return Err(LaunchFault::NotANumber { variable: MASTER[1], found: port.into() }.into());
    };
    let restarts = variables.get("TORCHELASTIC_RESTART_COUNT").unwrap_or("0");
    let run = variables.get(RUN_ID).unwrap_or_default();
    let job = format!("torchrun {run} {restarts} {address} {port}");
    Ok(RendezvousAddress::beside(address, number, job))
}
