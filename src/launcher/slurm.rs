//! Slurm's srun. Slurm's manual page "srun", section "Output environment variables".

use super::{Launcher, RendezvousAddress, Variables, hosts};
use crate::Result;
use crate::error::{LaunchFault, Launched};

const STEP: &str = "SLURM_STEP_ID";

/// Step numbers that are not job steps, such as a batch script or an interactive shell: Slurm's
/// `slurm.h`, `SLURM_INTERACTIVE_STEP` and those after it.
const NO_STEP: u32 = 0xffff_fff0;

pub(super) const SRUN: Launcher = Launcher {
    name: "srun",
    marks: &[STEP],
    // A process that the batch script starts itself is not a rank, although it sees `SLURM_PROCID`
    // and `SLURM_NTASKS`.
    but: |variables| {
        variables
            .get(STEP)
            .and_then(|step| step.parse().ok())
            .is_some_and(|step: u32| step >= NO_STEP)
    },
    rank: "SLURM_PROCID",
    // The step's own number of tasks; `SLURM_NTASKS` may be the job's.
    size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
    local_rank: "SLURM_LOCALID",
    is_local_known: true,
    also: &["SLURM_JOB_ID"],
    depth: 1,
    with_address: "TYPED_NCCL_ADDRESS=node1:29400 srun .. program",
    place,
};

/// Rank 0 runs on the step's first machine, unless the user placed the ranks.
fn place(variables: &Variables, launched: &Launched) -> Result<RendezvousAddress> {
    let [job, step] = ["SLURM_JOB_ID", STEP].map(|name| variables.get(name).unwrap_or_default());
    let lists = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
    let unknown = || LaunchFault::NoAddress { launched: launched.clone(), here: None };
    let variable = *lists.iter().find(|name| variables.is_set(name)).ok_or_else(unknown)?;
    let list = variables.get(variable).unwrap_or_default();
    let Some((host, more)) = hosts::first(list) else {
        return Err(LaunchFault::NoHosts { variable, found: list.to_owned() }.into());
    };
    let job = format!("srun {job}.{step}");
    if !more {
        return Ok(RendezvousAddress::on("127.0.0.1", job));
    }
    let arbitrary = variables.get("SLURM_DISTRIBUTION").is_some_and(|how| how.starts_with("arb"));
    if arbitrary || variables.is_set("SLURM_HET_SIZE") {
        return Err(unknown().into());
    }
    Ok(RendezvousAddress::on(&host, job))
}
