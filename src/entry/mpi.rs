//! Seats from an MPI communicator.

use std::hash::{Hash as _, Hasher as _};

use mpi::traits::{Communicator, Root as _};
use siphasher::sip::SipHasher13;

use crate::error::{Error, InitFailed};
use crate::host::far::adopt;
use crate::{Rank, Result, Seat, UniqueId};

impl Seat {
    /// This process's seat, with its rank and size in an MPI communicator: `MPI_COMM_WORLD` or a
    /// part of it. All of its processes must call it; the host waits for them in `MPI_Bcast` and
    /// `MPI_Comm_dup`.
    ///
    /// Afterwards MPI is used if ranks on the CPU are on several machines: it carries their data,
    /// by a thread of its own. Start it with
    /// `mpi::initialize_with_threading(Threading::Multiple)`, and end it after the last
    /// communicator.
    ///
    /// ```no_run
    /// use typed_nccl::{Cuda, Result, Seat};
    ///
    /// # fn main() -> Result<()> {
    /// let universe = mpi::initialize().expect("MPI starts once");
    /// let comm = Seat::mpi(&universe.world())?.init(Cuda::local()?)?;
    /// # comm.finish()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InitFailed`]: rank 0 cannot listen, reported on every rank; else as
    /// [`with_id`](Self::with_id).
    pub fn mpi<C: Communicator>(world: &C) -> Result<Self> {
        let (rank, size) = (index(world.rank()), index(world.size()));
        // All zeros if rank 0 has no id, since the others must not wait for one.
        let mut bytes = [0; 128];
        let own = (rank == 0).then(UniqueId::new);
        if let Some(Ok(id)) = &own {
            bytes = id.to_bytes();
        }
        world.process_at_rank(0).broadcast_into(&mut bytes[..]);
        if bytes != [0; 128] {
            let mut job = SipHasher13::new();
            bytes.hash(&mut job);
            adopt(world.as_raw(), job.finish());
        }
        match own {
            Some(Err(error)) => Err(error),
            None if bytes == [0; 128] => {
                let why = "cannot listen; its own error says why".to_owned();
                Err(Error::from(InitFailed { size, ranks: vec![Rank(0)], why }))
            }
            _ => Self::with_id(UniqueId::from_bytes(bytes), rank, size),
        }
    }
}

fn index(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}
