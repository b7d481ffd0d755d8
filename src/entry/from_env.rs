//! Seats from a launcher.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::control;
use crate::error::LaunchFault;
use crate::launcher::{self, Found, RendezvousAddress, Variables};
use crate::{Result, Seat};

impl Seat {
    /// The seat that a launcher gives this process: torchrun, Slurm's srun, the mpirun of Open MPI,
    /// MPICH, Intel MPI or MVAPICH, Flux, PALS, or our own (`TYPED_NCCL=cuda` or
    /// `host:4,processes`, which only [`launch!`](crate::launch) reads). The recognised launcher is
    /// logged. Each further call gives a seat of the next communicator of the same ranks, so all
    /// ranks must call it equally often.
    ///
    /// The device is the caller's choice: a GPU, or [`Host`](crate::Host) for ranks on one machine,
    /// or on several with the feature `mpi`.
    ///
    /// `TYPED_NCCL_ADDRESS=host:port` is the address where rank 0 listens, if the launcher sets
    /// none; the error asks for it. The guide has complete files for each launcher.
    ///
    /// # Errors
    /// [`Error::BadLaunch`](crate::Error::BadLaunch): no launcher, an incomplete set of variables,
    /// two launchers that disagree, values that are not numbers, a rank that is not below the size,
    /// or no address; [`Error::InitFailed`](crate::Error::InitFailed) as for [`tcp`](Self::tcp).
    pub fn from_env() -> Result<Self> {
        let variables = Variables::here();
        match launcher::find(&variables)? {
            Some(found) => Self::of(&found, &variables),
            None => {
                let asked = variables.get("TYPED_NCCL").map(|value| format!("TYPED_NCCL={value}"));
                Err(LaunchFault::NoLauncher { asked, looked_for: launcher::looked_for() }.into())
            }
        }
    }

    /// The seat for a recognised launcher.
    pub(super) fn of(found: &Found, variables: &Variables) -> Result<Self> {
        /// How many seats this process has taken.
        static BEFORE: AtomicU64 = AtomicU64::new(0);
        let launched = &found.launched;
        let (rank, size) = (launched.rank as usize, launched.size);
        if size == 1 {
            log::info!("{launched}");
            return Ok(Self::local(1).remove(0));
        }
        let RendezvousAddress { addresses, job, is_unique } = found.place(variables)?;
        log::info!("{launched}; the ranks meet at {}", addresses.join(" or "));
        let before = BEFORE.fetch_add(1, Relaxed);
        let meeting = match job {
            Some(job) => {
                control::job(&addresses, (&format!("{job} {before}"), is_unique), rank, size)
            }
            None => control::tcp(&addresses[0], rank, size),
        };
        Ok(Self::at(meeting?, rank))
    }
}
