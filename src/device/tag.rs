//! Tags: which device of its kind a type means.

use std::any::TypeId;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::LazyLock;

use crate::Result;
use crate::error::TagTaken;
use crate::lock::Mutex;

/// This process's one device: the tag to start with. On the host it is ordinal 0; under a launcher
/// with one process per GPU it is the process's GPU.
///
/// ```
/// # use typed_nccl::{Host, Local, Result};
/// fn only(device: &Host<Local>) -> u32 {
///     device.ordinal()
/// }
/// assert_eq!(Host::local().map(|device| only(&device)), Ok(0)); // `Host` for short
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Local;

/// Ordinal `N`: for tests and fixed pairs.
///
/// ```
/// # use typed_nccl::{At, Host};
/// let device: Host<At<2>> = Host::open()?;
/// assert_eq!(device.ordinal(), 2);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct At<const N: u32>;

/// A device whose ordinal is known only at run time. Any two have the same type, so their ordinals
/// are compared on every use.
///
/// ```
/// # use typed_nccl::{AnyDevice, Host};
/// let devices: Vec<Host<AnyDevice>> = Host::open_each(&[0, 3])?;
/// assert_eq!(devices[1].ordinal(), 3);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AnyDevice;

/// A device whose type belongs to one rank's closure in [`spmd`](crate::spmd): never written by
/// hand.
///
/// ```
/// use typed_nccl::{Communicator, Host, Result, Scoped, spmd};
///
/// /// Only where a function names it; most take any `D: Device`.
/// fn body<'id>(comm: Communicator<Host<Scoped<'id>>>) -> Result<()> {
///     comm.finish()
/// }
/// spmd::<Host>(2, |place| body(place.init()?)).expect("both ranks end well");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Scoped<'id>(PhantomData<fn(&'id ()) -> &'id ()>);

/// A tag of your own, minted by [`device_tag!`](crate::device_tag) and bound to an ordinal when a
/// device is first opened under it: `Host::<Trainer>::open_as(2)`.
///
/// See the example of [`device_tag!`](crate::device_tag).
pub trait DeviceTag: 'static {
    /// The tag's name in messages.
    const NAME: &'static str;
}

/// Mints device tags of your own.
///
/// ```
/// use typed_nccl::{Host, Result, device_tag};
///
/// device_tag!(Trainer, Evaluator);
///
/// # fn main() -> Result<()> {
/// let trainer = Host::<Trainer>::open_as(0)?;
/// let evaluator = Host::<Evaluator>::open_as(1)?;
/// assert!(Host::<Trainer>::open_as(3).is_err()); // a tag keeps its ordinal
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! device_tag {
    ($($visibility:vis $name:ident),+ $(,)?) => { $(
        #[doc = concat!("The device tag `", stringify!($name), "`.")]
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;

        impl $crate::DeviceTag for $name {
            const NAME: &'static str = ::core::stringify!($name);
        }
    )+ };
}

static CLAIMED: LazyLock<Mutex<HashMap<(&'static str, TypeId), u32>>> =
    LazyLock::new(Mutex::default);

/// Binds `Tag` on devices of `kind` to `ordinal`; succeeds again only for the same ordinal.
pub(crate) fn claim<Tag: DeviceTag>(kind: &'static str, ordinal: u32) -> Result<()> {
    let mut claimed = CLAIMED.lock();
    let holds = *claimed.entry((kind, TypeId::of::<Tag>())).or_insert(ordinal);
    if holds == ordinal {
        return Ok(());
    }
    Err(TagTaken { tag: Tag::NAME, kind, holds, asked: ordinal }.into())
}
