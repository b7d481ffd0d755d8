//! Open MPI's mpirun: 4, and 5, whose mpirun is PRRTE's. Open MPI's documentation, "Environment
//! variables set for MPI applications"; `PMIX_NAMESPACE` is the PMIx standard's name of the job.

use super::{Launcher, RendezvousAddress, never};

pub(super) const OPEN_MPI: Launcher = Launcher {
    name: "Open MPI's mpirun",
    marks: &["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    but: never,
    rank: "OMPI_COMM_WORLD_RANK",
    size: &["OMPI_COMM_WORLD_SIZE"],
    local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
    is_local_known: true,
    also: &[],
    depth: 3,
    with_address: "mpirun -x TYPED_NCCL_ADDRESS=node1:29400 .. program",
    place: |variables, launched| {
        // Some releases of 4 leave PMIx's name out of the environment.
        let names = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"];
        let job = names.into_iter().find_map(|name| variables.get(name));
        let job = job.map(|job| format!("mpirun {job}"));
        RendezvousAddress::here(variables, launched, &["OMPI_COMM_WORLD_LOCAL_SIZE"], job)
    },
};
