//! Flux. Flux's manual page "flux-environment(7)", section "Job environment".

use super::{Launcher, RendezvousAddress, never};
use crate::error::LaunchFault;

pub(super) const FLUX: Launcher = Launcher {
    name: "Flux",
    marks: &["FLUX_TASK_RANK"],
    but: never,
    rank: "FLUX_TASK_RANK",
    size: &["FLUX_JOB_SIZE"],
    local_rank: "FLUX_TASK_LOCAL_ID",
    is_local_known: true,
    also: &["FLUX_JOB_ID"],
    depth: 2,
    with_address: "TYPED_NCCL_ADDRESS=node1:29400 flux run .. program",
    place: |variables, launched| {
        let job = variables.get("FLUX_JOB_ID").unwrap_or_default();
        match variables.number("FLUX_JOB_NNODES")? {
            Some(1) => Ok(RendezvousAddress::on("127.0.0.1", format!("flux {job}"))),
            _ => Err(LaunchFault::NoAddress { launched: launched.clone(), here: None }.into()),
        }
    },
};
