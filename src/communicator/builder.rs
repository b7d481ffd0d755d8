//! Building a communicator: a seat and a device, in any order, then options.
//!
//! [`Builder<S, D, L>`](Builder) records in its parameters what was given so far. You never write
//! them, but error messages show them when something is missing or given twice.

use std::marker::PhantomData;

use super::adopted_comm::AdoptedComm;
use super::lifecycle::Gone;
use super::{CommConfig, Communicator, Health, Uninit};
use crate::error::{self, Site};
use crate::{Device, Host, Label, Rank, Seat, World};

/// No seat was given yet.
///
/// Part of [`Builder`]'s type until `seat` is called.
#[derive(Debug)]
pub struct NoSeat;

/// No device was given yet.
///
/// Part of [`Builder`]'s type until `device` is called.
#[derive(Debug)]
pub struct NoDevice;

/// A device was given.
///
/// Part of [`Builder`]'s type after `device`.
#[derive(Debug)]
pub struct OnDevice<D>(D);

/// The default communicator of its device: no name of its own.
///
/// Part of [`Builder`]'s type until `label` is called.
#[derive(Debug)]
pub struct Unnamed;

#[diagnostic::do_not_recommend]
impl Label for Unnamed {
    type On<D: Device> = D;
}

/// A communicator in the making.
///
/// ```
/// use typed_nccl::{Builder, Communicator, Host, NoDevice, NoSeat, OnDevice, Seat, Unnamed, tag};
/// # use typed_nccl::Result;
///
/// tag!(Workers);
///
/// # fn main() -> Result<()> {
/// let empty: Builder<NoSeat, NoDevice, Unnamed> = Communicator::builder();
/// let on_device: Builder<NoSeat, OnDevice<Host>> = empty.device(Host::local()?);
/// let complete = on_device.seat(Seat::local(1).remove(0)).label::<Workers>();
/// let comm: Communicator<Workers<Host>> = complete.build().connect()?;
/// comm.finish()
/// # }
/// ```
#[must_use = "`build()` gives the communicator"]
#[derive(Debug)]
pub struct Builder<S = NoSeat, D = NoDevice, L = Unnamed> {
    seat: S,
    device: D,
    config: CommConfig,
    label: PhantomData<fn() -> L>,
}

/// No seat was given yet.
#[diagnostic::on_unimplemented(
    message = "this communicator has a seat already",
    label = "a second seat",
    note = "a seat is one rank of one communicator: build another communicator for the other seat"
)]
pub trait SeatWanted {}

#[diagnostic::do_not_recommend]
impl SeatWanted for NoSeat {}

/// No device was given yet.
#[diagnostic::on_unimplemented(
    message = "this communicator has a device already",
    label = "a second device",
    note = "a rank of a communicator runs on one device: build another communicator for the other device"
)]
pub trait DeviceWanted {}

#[diagnostic::do_not_recommend]
impl DeviceWanted for NoDevice {}

/// A seat was given.
///
/// A bound of [`Builder::build`]. See the example of [`Builder`].
#[diagnostic::on_unimplemented(
    message = "this communicator has no seat yet",
    label = "a seat is missing: which rank of how many this is",
    note = "give one with `.seat(seat)`; `Seat::local(n)` makes the seats of n ranks in this process"
)]
pub trait SeatGiven {
    /// The seat.
    #[doc(hidden)]
    fn into_seat(self) -> Seat;
}

/// A device was given.
///
/// A bound of [`Builder::build`]. See the example of [`Builder`].
#[diagnostic::on_unimplemented(
    message = "this communicator has no device yet",
    label = "a device is missing: where its buffers and streams live",
    note = "give one with `.device(device)`, such as `Host::local()?`"
)]
pub trait DeviceGiven: DeviceOrNone + Sized {
    /// Puts seat, device and options together.
    #[doc(hidden)]
    fn set_up<L: Label>(self, seat: Seat, config: CommConfig) -> Setup<Self::World<L>>;
}

/// A device, or none yet. Without a device, the communicator's world is on the host, so that the
/// compiler reports only the missing device.
#[doc(hidden)]
pub trait DeviceOrNone {
    /// The communicator's world under label `L`.
    type World<L: Label>: World;
}

impl DeviceOrNone for NoDevice {
    type World<L: Label> = L::On<Host>;
}

impl<D: Device> DeviceOrNone for OnDevice<D> {
    type World<L: Label> = L::On<D>;
}

#[diagnostic::do_not_recommend]
impl SeatGiven for Seat {
    fn into_seat(self) -> Seat {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device> DeviceGiven for OnDevice<D> {
    fn set_up<L: Label>(self, seat: Seat, config: CommConfig) -> Setup<L::On<D>> {
        Setup::new(seat, self.0, config)
    }
}

/// # Beginning
impl Communicator<Host, Uninit> {
    /// Starts building a communicator: give it a seat and a device, in any order.
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Host, Result, Seat};
    /// # fn main() -> Result<()> {
    /// # let seat = Seat::local(1).remove(0);
    /// let comm = Communicator::builder().seat(seat).device(Host::local()?).build().connect()?;
    /// assert_eq!(comm.size(), 1);
    /// comm.finish()
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder {
            seat: NoSeat,
            device: NoDevice,
            config: CommConfig::default(),
            label: PhantomData,
        }
    }
}

impl<S, D, L> Builder<S, D, L> {
    /// Which rank of which communicator this is.
    pub fn seat(self, seat: Seat) -> Builder<Seat, D, L>
    where
        S: SeatWanted,
    {
        let Self { device, config, label, .. } = self;
        Builder { seat, device, config, label }
    }

    /// Where its buffers and streams live.
    pub fn device<N: Device>(self, device: N) -> Builder<S, OnDevice<N>, L>
    where
        D: DeviceWanted,
    {
        let Self { seat, config, label, .. } = self;
        Builder { seat, device: OnDevice(device), config, label }
    }

    /// Names the communicator: `label::<TensorParallel>()`. All ranks give the same name.
    pub fn label<N: Label>(self) -> Builder<S, D, N> {
        let Self { seat, device, config, .. } = self;
        Builder { seat, device, config, label: PhantomData }
    }

    /// Sets the options.
    pub fn config(self, config: CommConfig) -> Self {
        Self { config, ..self }
    }
}

impl<S, D: DeviceOrNone, L: Label> Builder<S, D, L> {
    /// The communicator, not connected yet.
    pub fn build(self) -> Communicator<D::World<L>, Uninit>
    where
        S: SeatGiven,
        D: DeviceGiven,
    {
        Communicator::of(self.device.set_up::<L>(self.seat.into_seat(), self.config))
    }
}

impl<D: Device> Communicator<D, Uninit> {
    pub(crate) fn unnamed(seat: Seat, device: D, config: CommConfig) -> Self {
        Self::of(Setup::new(seat, device, config))
    }
}

/// The state of an unconnected communicator.
#[doc(hidden)]
pub struct Setup<W: World> {
    pub(super) seat: Seat,
    pub(super) device: W::Device,
    pub(super) config: CommConfig,
    /// The communicator that another library made, if there is one.
    pub(super) raw: Option<AdoptedComm<W>>,
    /// The rank under which records show it, if that is not its own.
    pub(super) row: Option<u32>,
}

impl<W: World> Setup<W> {
    pub(super) fn new(seat: Seat, device: W::Device, config: CommConfig) -> Self {
        Self { seat, device, config, raw: None, row: None }
    }

    /// Sets the communicator that it descends from, of which its rank is the same.
    pub(super) fn after(self, health: &Health) -> Self {
        Self { row: Some(health.row()), ..self }
    }

    pub(super) fn place(&self) -> (Rank, usize) {
        (self.seat.rank(), self.seat.size())
    }

    pub(super) fn abort(self, why: &str, at: Site) -> Gone {
        let (rank, size) = self.place();
        let control = self.seat.take();
        control.depart(&format!("it was aborted: {why}"));
        Gone { rank, size, cause: Some(error::Abort { why: why.to_owned(), by: rank, at }) }
    }
}
