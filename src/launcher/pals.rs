//! HPE's PALS, the mpiexec and aprun of Cray EX. HPE's manual page "intro_pmi". Slurm's plugin
//! `mpi/cray_shasta` and Flux's `cray-pals` set the same variables, which is why PALS is the
//! outermost.

use super::{Launcher, RendezvousAddress, never};

pub(super) const PALS: Launcher = Launcher {
    name: "PALS",
    marks: &["PALS_RANKID"],
    but: never,
    rank: "PALS_RANKID",
    size: &["PMI_SIZE"],
    local_rank: "PALS_LOCAL_RANKID",
    is_local_known: true,
    also: &[],
    depth: 0,
    with_address: "TYPED_NCCL_ADDRESS=node1:29400 mpiexec .. program",
    place: |variables, launched| {
        let job = variables.get("PALS_APID").map(|job| format!("pals {job}"));
        let local = ["PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE", "MPI_LOCALNRANKS"];
        RendezvousAddress::here(variables, launched, &local, job)
    },
};
