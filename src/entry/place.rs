//! The starting point of each rank of `spmd`.

use crate::error::Site;
use crate::{CommConfig, Communicator, Device, Rank, Result, Seat};

/// One rank's place: its seat and its device.
///
/// ```
/// use typed_nccl::{Host, Result, spmd};
///
/// # fn main() -> Result<()> {
/// spmd::<Host>(2, |place| {
///     let x = place.device().zeros::<f32>(8)?;
///     let comm = place.init()?;
///     comm.barrier()?;
/// #   drop(x);
///     comm.finish()
/// })
/// # }
/// ```
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

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.seat.size()
    }

    /// This rank's device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Connects to the other ranks, all of which must call it; see [`Seat::init`].
    ///
    /// # Errors
    /// As [`Seat::init`].
    #[track_caller]
    pub fn init(self) -> Result<Communicator<D>> {
        self.seat.init(self.device)
    }

    /// [`init`](Self::init) with a configuration: a deadline, more signals. What all ranks must
    /// choose alike says so in [`CommConfig`](crate::CommConfig).
    ///
    /// ```
    /// use typed_nccl::{CommConfig, Host, Result, spmd};
    ///
    /// # fn main() -> Result<()> {
    /// spmd::<Host>(2, |place| {
    ///     let comm = place.init_with(CommConfig::builder().signals(4).build())?;
    ///     comm.finish()
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`init`](Self::init); a configuration that differs from the other ranks'.
    #[track_caller]
    pub fn init_with(self, config: CommConfig) -> Result<Communicator<D>> {
        self.init_at(config, Site::caller())
    }

    pub(super) fn init_at(self, config: CommConfig, site: Site) -> Result<Communicator<D>> {
        let Self { seat, device } = self;
        Communicator::builder().seat(seat).device(device).config(config).build().connect_at(site)
    }

    /// The seat and the device, for the builder.
    pub fn into_parts(self) -> (Seat, D) {
        (self.seat, self.device)
    }
}
