//! Building a communicator: a seat and a device, in any order, then options.
//!
//! [`Builder<S, D, L>`](Builder) holds what was given so far. You never write the parameters; you
//! meet them in the message that names what is missing.

use std::marker::PhantomData;

use super::lifecycle::Gone;
use super::{CommConfig, Communicator, Uninit};
use crate::error::{self, Site};
use crate::{Device, Host, Label, Rank, Seat, World};

/// No seat was given yet.
#[derive(Debug)]
pub struct NoSeat;

/// No device was given yet.
#[derive(Debug)]
pub struct NoDevice;

/// A device was given.
#[derive(Debug)]
pub struct OnDevice<D>(D);

/// The default communicator of its device: no name of its own.
#[derive(Debug)]
pub struct Unnamed;

impl Label for Unnamed {
    type On<D: Device> = D;
}

/// A communicator in the making.
#[must_use = "`build()` gives the communicator"]
#[derive(Debug)]
pub struct Builder<S = NoSeat, D = NoDevice, L = Unnamed> {
    seat: S,
    device: D,
    config: CommConfig,
    label: PhantomData<fn() -> L>,
}

/// A seat was given.
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
#[diagnostic::on_unimplemented(
    message = "this communicator has no device yet",
    label = "a device is missing: where its buffers and streams live",
    note = "give one with `.device(device)`, such as `Host::local()?`"
)]
pub trait DeviceGiven: Sized {
    /// The communicator's world under label `L`.
    #[doc(hidden)]
    type World<L: Label>: World;

    /// Puts seat, device and options together.
    #[doc(hidden)]
    fn set_up<L: Label>(self, seat: Seat, config: CommConfig) -> Setup<Self::World<L>>;
}

impl SeatGiven for Seat {
    fn into_seat(self) -> Seat {
        self
    }
}

impl<D: Device> DeviceGiven for OnDevice<D> {
    type World<L: Label> = L::On<D>;

    fn set_up<L: Label>(self, seat: Seat, config: CommConfig) -> Setup<L::On<D>> {
        Setup { seat, device: self.0, config }
    }
}

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

impl<D, L> Builder<NoSeat, D, L> {
    /// Which rank of which communicator this is.
    pub fn seat(self, seat: Seat) -> Builder<Seat, D, L> {
        let Self { device, config, label, .. } = self;
        Builder { seat, device, config, label }
    }
}

impl<S, L> Builder<S, NoDevice, L> {
    /// Where its buffers and streams live.
    pub fn device<D: Device>(self, device: D) -> Builder<S, OnDevice<D>, L> {
        let Self { seat, config, label, .. } = self;
        Builder { seat, device: OnDevice(device), config, label }
    }
}

impl<S, D, L> Builder<S, D, L> {
    /// Names the communicator: `label::<TensorParallel>()`. All ranks give the same name.
    pub fn label<N: Label>(self) -> Builder<S, D, N> {
        let Self { seat, device, config, .. } = self;
        Builder { seat, device, config, label: PhantomData }
    }

    /// Sets the options.
    pub fn config(self, config: CommConfig) -> Self {
        Self { config, ..self }
    }

    /// The communicator, not connected yet.
    pub fn build(self) -> Communicator<D::World<L>, Uninit>
    where
        S: SeatGiven,
        D: DeviceGiven,
        L: Label,
    {
        Communicator::of(self.device.set_up::<L>(self.seat.into_seat(), self.config))
    }
}

impl<D: Device> Communicator<D, Uninit> {
    pub(crate) fn unnamed(seat: Seat, device: D, config: CommConfig) -> Self {
        Self::of(Setup { seat, device, config })
    }
}

/// What an unconnected communicator holds.
#[doc(hidden)]
pub struct Setup<W: World> {
    pub(super) seat: Seat,
    pub(super) device: W::Device,
    pub(super) config: CommConfig,
}

impl<W: World> Setup<W> {
    pub(super) fn place(&self) -> (Rank, usize) {
        (self.seat.rank(), self.seat.size())
    }

    pub(super) fn abort(self, why: &str, at: Site) -> Gone {
        let (rank, size) = self.place();
        let control = self.seat.take();
        control.depart(&format!("it was aborted: {why}"));
        Gone { rank, size, cause: Some(error::Aborted { why: why.to_owned(), by: rank, at }) }
    }
}
