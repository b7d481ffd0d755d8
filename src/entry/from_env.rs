//! The seat that a launcher gives this process.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::error::{Error, LaunchFault, Unsupported};
use crate::launcher::{self, Found, Variables};
use crate::{Result, Seat};

impl Seat {
    /// The seat that a launcher gives this process: torchrun, Slurm's srun, the mpirun of Open MPI, MPICH,
    /// Intel MPI or MVAPICH, Flux, PALS, or our own (`TYPED_NCCL=cuda`, with [`launch!`](crate::launch)).
    /// What was recognised is logged. Given once; further communicators come of
    /// [`split`](crate::Communicator::split).
    ///
    /// `TYPED_NCCL_ADDRESS=host:port` says where rank 0 listens if the launcher does not; the error asks for
    /// it. docs/cluster.md has a complete command line for each launcher.
    ///
    /// # Errors
    /// [`Error::BadLaunch`]: no launcher, half of one's variables, two that disagree, numbers that are
    /// none, a rank that is not below the size, no address, or a seat that was taken before.
    pub fn from_env() -> Result<Self> {
        let variables = Variables::here();
        match launcher::find(&variables)? {
            Some(found) => Self::of(&found, &variables),
            None => Err(LaunchFault::NoLauncher { looked_for: launcher::looked_for() }.into()),
        }
    }

    /// The seat that was found.
    pub(super) fn of(found: &Found, variables: &Variables) -> Result<Self> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let launched = &found.launched;
        let meet = if launched.size > 1 { Some(found.place(variables)?) } else { None };
        if TAKEN.swap(true, Relaxed) {
            return Err(LaunchFault::Taken { launched: launched.clone() }.into());
        }
        match meet {
            None => {
                log::info!("{launched}");
                Ok(Self::local(1).remove(0))
            }
            Some(place) => {
                log::info!("{launched}; the ranks meet at {}", place.addresses.join(" or "));
                Err(Error::Unsupported(Box::new(Unsupported {
                    what: "a communicator across processes".into(),
                    needs: "a control plane across processes".into(),
                    found: "this build has none".into(),
                })))
            }
        }
    }
}
