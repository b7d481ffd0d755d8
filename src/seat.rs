//! Seats: places in a communicator that does not exist yet.

use std::sync::Arc;

use crate::communicator::leave;
use crate::control::{Control, Meeting};
use crate::{CommConfig, Communicator, Device, Initializing, Rank, Result};

/// One place in one communicator that does not exist yet: its rank, its size, and where the ranks
/// meet.
///
/// A seat is given once and used once: it is not `Clone`, and making a communicator consumes it. So
/// a rank cannot be taken twice, and an id cannot serve two communicators. A seat that is dropped
/// unused is reported to the ranks that wait for it.
#[must_use = "the other ranks wait for every seat to be taken"]
#[derive(Debug)]
pub struct Seat {
    meeting: Option<Arc<Meeting>>,
    rank: u32,
    size: u32,
}

impl Seat {
    /// The seats of a communicator of `n` ranks in this process, by rank.
    pub fn local(n: usize) -> Vec<Self> {
        let size = u32::try_from(n).unwrap_or(u32::MAX);
        let meeting = Meeting::new(size);
        (0..size).map(|rank| Self { meeting: Some(meeting.clone()), rank, size }).collect()
    }

    /// A seat at a meeting.
    pub(crate) fn at(meeting: Arc<Meeting>, rank: usize) -> Self {
        let size = meeting.size();
        Self { meeting: Some(meeting), rank: Rank::at(rank).0, size }
    }

    /// The rank that takes this seat.
    pub fn rank(&self) -> Rank {
        Rank(self.rank)
    }

    /// How many ranks the communicator will have.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Takes the seat on `device`: `Communicator::builder().seat(self).device(device)` and
    /// `connect`. All ranks must; the host waits for them, 10 minutes at most.
    ///
    /// # Errors
    /// [`Error::InitFailed`](crate::Error::InitFailed): a rank that does not come or cannot take
    /// part, or two ranks on one device.
    #[track_caller]
    pub fn init<D: Device>(self, device: D) -> Result<Communicator<D>> {
        Communicator::unnamed(self, device, CommConfig::default()).connect()
    }

    /// Takes the seat on `device` and returns at once; `ready(deadline)` gives the communicator.
    ///
    /// # Errors
    /// The device cannot be used.
    #[track_caller]
    pub fn start<D: Device>(self, device: D) -> Result<Communicator<D, Initializing>> {
        Communicator::unnamed(self, device, CommConfig::default()).start()
    }

    /// The seat's end of the control plane.
    pub(crate) fn take(mut self) -> Control {
        let meeting = self.meeting.take().unwrap_or_else(|| Meeting::new(self.size));
        Control::new(meeting, self.rank)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(meeting) = self.meeting.take() {
            let control = Control::new(meeting, self.rank);
            leave("its seat was dropped and never taken", move |why| control.depart(why));
        }
    }
}

impl std::fmt::Debug for Meeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Meeting of {}", self.size())
    }
}
