//! Worlds: which communicator a value belongs to, and on what kind of device.
//!
//! One type parameter answers both questions. A device type is its own default world, so that a
//! program with one communicator writes `Communicator<Host>`; a label minted by
//! [`tag!`](crate::tag) names a second one, so that a buffer of the data-parallel communicator
//! cannot meet the tensor-parallel one by accident.
//!
//! Not in the types: two communicators of one name. Every resource carries its communicator's
//! stamp, compared on use.

use crate::Device;

/// A communicator's name together with the device it runs on.
///
/// ```
/// # use typed_nccl::{Communicator, Host, Result, Seat, World};
/// # fn main() -> Result<()> {
/// fn report<W: World>(comm: &Communicator<W>) -> String {
///     format!("{}: rank {} of {}", W::NAME, comm.rank(), comm.size())
/// }
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// assert_eq!(report(&comm), "World: rank 0 of 1");
/// # comm.finish()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a device nor the name of a communicator",
    label = "not a device, and not minted by `tag!`",
    note = "a device such as `Host` names the default communicator on it",
    note = "mint a name of your own with `tag!(pub TensorParallel);` and write `TensorParallel<Host>`"
)]
pub trait World {
    /// The device on which the communicator's buffers and streams live.
    type Device: Device;

    /// The name in messages.
    const NAME: &'static str = "World";
}

/// A name for communicators, minted by [`tag!`](crate::tag).
///
/// Written bare where a method asks for a name: `builder.label::<TensorParallel>()`.
///
/// ```
/// # use typed_nccl::{Communicator, Host, Label, Result, Seat, tag};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// tag!(pub Pair);
///
/// fn child<L: Label>(comm: &mut Communicator<Host>) -> Result<Communicator<L::On<Host>>> {
///     comm.split::<L>(0, 0)
/// }
/// child::<Pair>(&mut comm)?.finish()?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of a communicator",
    label = "not minted by `tag!`",
    note = "mint one with `tag!(pub TensorParallel);`"
)]
pub trait Label {
    /// The world of that name on device `D`.
    type On<D: Device>: World<Device = D>;
}

/// Mints names for communicators.
///
/// ```
/// use typed_nccl::{Communicator, Host, tag};
///
/// tag!(pub TensorParallel, pub DataParallel);
///
/// fn layer(tensor: &Communicator<TensorParallel<Host>>, data: &Communicator<DataParallel<Host>>) {
///     let _ = (tensor.size(), data.size());
/// }
/// ```
#[macro_export]
macro_rules! tag {
    ($($visibility:vis $name:ident),+ $(,)?) => { $(
        #[doc = concat!("The communicators named `", stringify!($name), "`, on device `D`.")]
        $visibility struct $name<D = $crate::Host>(::core::marker::PhantomData<fn() -> D>);

        impl<D: $crate::Device> $crate::World for $name<D> {
            type Device = D;
            const NAME: &'static str = ::core::stringify!($name);
        }

        impl $crate::Label for $name {
            type On<D: $crate::Device> = $name<D>;
        }
    )+ };
}
