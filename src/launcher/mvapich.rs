//! MVAPICH's mpirun_rsh and mpiexec. MVAPICH2's user guide, "MVAPICH2 Parameters":
//! `MV2_COMM_WORLD_LOCAL_RANK` and its siblings. `MPIRUN_ID` is the process that started the job.

use super::{Launcher, RendezvousAddress, hydra, never};

pub(super) const MVAPICH: Launcher = Launcher {
    name: "MVAPICH's launcher",
    marks: &["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"],
    but: never,
    rank: "MV2_COMM_WORLD_RANK",
    size: &["MV2_COMM_WORLD_SIZE"],
    local_rank: "MV2_COMM_WORLD_LOCAL_RANK",
    is_local_known: true,
    also: &[],
    depth: 3,
    with_address: "mpirun_rsh .. TYPED_NCCL_ADDRESS=node1:29400 program",
    place: |variables, launched| {
        let id = variables.get("MPIRUN_ID").map(str::to_owned);
        let job = id.or_else(hydra::proxy).map(|job| format!("mvapich {job}"));
        RendezvousAddress::here(variables, launched, &["MV2_COMM_WORLD_LOCAL_SIZE"], job)
    },
};
