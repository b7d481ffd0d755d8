//! Hydra: the mpiexec of MPICH and of Intel MPI. MPICH's wiki, "Using the Hydra Process Manager",
//! section "Environment Settings"; Intel MPI's developer reference, "Hydra Environment Variables".
//!
//! `PMI_RANK` alone proves nothing: Slurm, Flux and PALS set it too, as PMI servers. Some PALS set
//! all of its variables.

use super::{Launcher, RendezvousAddress, never};

pub(super) const HYDRA: Launcher = Launcher {
    name: "Hydra (mpiexec of MPICH or Intel MPI)",
    marks: &["PMI_RANK", "PMI_SIZE"],
    but: never,
    rank: "PMI_RANK",
    size: &["PMI_SIZE"],
    local_rank: "MPI_LOCALRANKID",
    is_local_known: true,
    also: &[],
    depth: 3,
    with_address: "mpiexec -genv TYPED_NCCL_ADDRESS node1:29400 .. program",
    place: |variables, launched| {
        let job = proxy().map(|job| format!("hydra {job}"));
        RendezvousAddress::here(variables, launched, &["MPI_LOCALNRANKS"], job)
    },
};

/// Hydra gives a job no name. On one machine all its ranks descend from one process.
pub(super) fn proxy() -> Option<String> {
    let mut process = "self".to_owned();
    for _ in 0..64 {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // `26807 (hydra_pmi_proxy) S 26806 ..`; a name may hold anything, even `)`.
        let (head, tail) = stat.rsplit_once(')')?;
        let (number, name) = head.split_once('(')?;
        if name.starts_with("hydra") || name.starts_with("mpispawn") {
            return Some(number.trim().to_owned());
        }
        process = tail.split_whitespace().nth(1)?.to_owned();
    }
    None
}
