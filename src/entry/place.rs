//! What each rank of `spmd` starts from.

use crate::{Communicator, Device, Rank, Result, Seat};

/// One rank's place: its seat and its device.
#[derive(Debug)]
pub struct Place<D: Device> {
    seat: Seat,
    device: D,
}

impl<D: Device> Place<D> {
    pub(super) fn new(seat: Seat, device: D) -> Self {
        Self { seat, device }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.seat.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.seat.size()
    }

    /// This rank's device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Connects to the other ranks, all of which must; see [`Seat::init`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn init(self) -> Result<Communicator<D>> {
        self.seat.init(self.device)
    }

    /// The seat and the device, for the builder.
    pub fn into_parts(self) -> (Seat, D) {
        (self.seat, self.device)
    }
}
