//! The last operations of a communicator.

use super::{CanEnqueue, Communicator, State};
use crate::error::Unsupported;
use crate::record::Recorded as _;
use crate::{FlightRecord, Result, World};

/// ## What it did last
impl<W: World, S: State> Communicator<W, S> {
    /// This rank's last operations on the communicator, with when they were enqueued, begun and
    /// completed. Local; never waits; also of a communicator that has failed. They are kept if
    /// [`CommConfig::flight_record`](crate::CommConfig::flight_record) or the environment's
    /// `TYPED_NCCL_FLIGHT_RECORD` or `TYPED_NCCL_TRACE` asks for it. NCCL has no such function.
    ///
    /// ```
    /// # use typed_nccl::{CommConfig, Communicator, Host, Sum, spmd};
    /// # spmd::<Host>(2, |place| {
    /// # let (seat, device) = place.into_parts();
    /// let config = CommConfig::builder().flight_record(100).build();
    /// let comm = Communicator::builder().seat(seat).device(device).config(config).build().connect()?;
    /// let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
    /// comm.all_reduce_in_place(&mut x, Sum)?;
    /// comm.sync(comm.stream())?;
    /// assert!(comm.flight_record()?.to_json().contains("nccl:all_reduce"));
    /// # comm.finish() }).expect("both ranks finish");
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported): its operations are not kept.
    pub fn flight_record(&self) -> Result<FlightRecord>
    where
        S: CanEnqueue,
    {
        let Some(journal) = &S::live(&self.body).core.journal else {
            return Err(Unsupported {
                what: "a flight record".to_owned(),
                needs: "operations that are kept: `CommConfig::builder().flight_record(2000)`, or \
                        TYPED_NCCL_FLIGHT_RECORD=/tmp/fr_ in the environment"
                    .to_owned(),
                found: "neither when the communicator was made".to_owned(),
            }
            .into());
        };
        let mut record = FlightRecord::default();
        journal.look();
        journal.add_to(&mut record);
        Ok(record)
    }
}
