//! Failures of windows, one-sided operations, transfers and groups.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::refusal::UNHARMED;
use super::report::ByRanks;
use crate::{DType, Rank};

/// A put that ends past the peer's memory in the window.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (source, target) = (comm.window::<f32>(2)?, comm.window::<f32>(2)?);
/// let refused = comm.put_signal(source.slice(0..2), 0, target.at(1));
/// assert!(matches!(refused, Err(Error::OutsideWindow(it)) if (it.end, it.len) == (3, 2)));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "put_signal: [{start}, {end}) ends past rank {peer}'s window of {len} {dtype} (at {site}); put less, or register a longer window; {UNHARMED}"
)]
pub struct OutsideWindow {
    /// Where the put starts, in elements.
    pub start: usize,
    /// One past the last element.
    pub end: usize,
    /// The window's owner.
    pub peer: Rank,
    /// The peer's number of elements.
    pub len: usize,
    /// Their type.
    pub dtype: DType,
    /// The call site.
    pub site: Site,
}

/// The ranks registered or closed different windows, or not all of them did.
///
/// ```
/// # use typed_nccl::{Error, Host, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let Err(Error::WindowsDiffer(differ)) = comm.window::<f32>(4 + comm.rank().index()) else {
///     panic!("4 is not 5; `window_uneven` takes both");
/// };
/// assert_eq!(differ.parts.len(), 2);
/// # comm.finish() }).expect("every rank ends well");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct WindowsDiffer {
    /// The communicator's name.
    pub name: &'static str,
    /// Whether they were closing them.
    pub closing: bool,
    /// What each rank registered or closed: `4096 f32, Symmetric`.
    pub parts: Vec<String>,
    /// Where this rank did.
    pub site: Site,
}

impl fmt::Display for WindowsDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, closing, parts, site } = self;
        let (what, help) = match closing {
            true => {
                ("close", "close the same windows on all ranks in the same order; none was closed")
            }
            false => (
                "register",
                "register the same on all ranks in the same order, or lengths that differ with `window_uneven`; nothing was registered",
            ),
        };
        write!(
            f,
            "the ranks of {name} {what} different windows (at {site}):{}; {help}",
            ByRanks(parts)
        )
    }
}

/// A signal or context that the communicator was not configured with.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let Err(Error::NoSuchSignal(none)) = comm.signal_in(0, 3) else { panic!("it has one signal") };
/// assert_eq!((none.index, none.signals), (3, 1));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "there is no signal {index} in context {context} (at {site}): the communicator was made with {contexts} contexts of {signals} signals; ask for more with `CommConfig::builder().contexts(..).signals(..)`"
)]
pub struct NoSuchSignal {
    /// The context asked for.
    pub context: u32,
    /// The signal asked for.
    pub index: u32,
    /// How many contexts there are.
    pub contexts: u32,
    /// How many signals each has.
    pub signals: u32,
    /// The call site.
    pub site: Site,
}

/// More signals than one wait of NCCL can count.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, SignalSlot, Signals};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let window = comm.window::<f32>(1)?;
/// let mut all = Signals::new();
/// all.expect_in(0, SignalSlot::default(), u32::MAX);
/// let refused = comm.wait_signals(&all);
/// assert!(matches!(refused, Err(Error::TooManySignals(it)) if it.count > it.most));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation}: {count} signals of rank {peer} in one slot are more than the {most} that one wait can count (at {site}); wait for them in several"
)]
pub struct TooManySignals {
    /// The method.
    pub operation: &'static str,
    /// The rank whose signals they are.
    pub peer: Rank,
    /// The number of signals.
    pub count: u32,
    /// How many can be waited for at once.
    pub most: u32,
    /// The call site.
    pub site: Site,
}

/// A transfer of a rank with itself whose other half is not in the same group or the same leg of an
/// exchange.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut x = comm.device().zeros::<f32>(4)?;
/// let refused = comm.recv(&mut x, comm.rank()); // no send is in the same group
/// let Err(Error::SelfTransfer(it)) = refused else { panic!("it receives from itself") };
/// assert!(it.sends.is_empty() && it.recvs == [4]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "rank {rank} sends {sends:?} elements to itself and receives {recvs:?} from itself (at {site}); both halves of such a transfer belong into one group, `comm.group(|g| ..)`, or into one leg of an exchange, with one length; nothing was sent"
)]
pub struct SelfTransfer {
    /// This rank.
    pub rank: Rank,
    /// How many elements each send to itself has, in order.
    pub sends: Vec<usize>,
    /// How many elements each receive from itself has, in order.
    pub recvs: Vec<usize>,
    /// Where the group is.
    pub site: Site,
}

/// A transfer of unregistered memory on a communicator whose transfers require registered memory.
///
/// ```
/// use typed_nccl::{CommConfig, Error, Host, Transfers, spmd};
///
/// spmd::<Host>(2, |place| {
///     let config = CommConfig::builder().transfers(Transfers::Registered).build();
///     let comm = place.init_with(config)?;
///     let x = comm.device().nccl_zeros::<f32>(4)?;
///     let refused = comm.send(&x, comm.ring(1)); // `comm.register_buffer(&x)` comes first
///     assert!(matches!(refused, Err(Error::NotRegistered(it)) if it.is_nccls));
///     comm.finish()
/// })
/// .expect("nothing was sent");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct NotRegistered {
    /// The method.
    pub operation: &'static str,
    /// The communicator's name.
    pub name: &'static str,
    /// Whether it could be registered, because it is memory of NCCL's allocator.
    pub is_nccls: bool,
    /// The call site.
    pub site: Site,
}

impl fmt::Display for NotRegistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, name, is_nccls, site } = self;
        let (found, help) = match is_nccls {
            true => (
                "memory that is not registered with it",
                "register all of it first, with `comm.register_buffer(&buffer)` or as a window",
            ),
            false => (
                "memory that is not NCCL's",
                "allocate it with `nccl_zeros` and register it with `comm.register_buffer(&buffer)`, or use a window",
            ),
        };
        write!(
            f,
            "{operation}: {found} (at {site}), and the transfers of {name} are `Transfers::Registered`: the other rank counts on it; {help}; memory of any kind goes through a communicator with `Transfers::Any`, such as a child by `split_with`; {UNHARMED}"
        )
    }
}

/// A window whose memory a communicator cannot use as requested.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, error::WindowFault};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut window = comm.window::<f32>(4)?;
/// let refused = window.also_in(&mut comm).map(drop);
/// let Err(Error::BadWindow(bad)) = refused else { panic!("it is in one") };
/// assert_eq!(bad.fault, WindowFault::RegisteredTwice);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct BadWindow {
    /// The communicator's name.
    pub name: &'static str,
    /// What is wrong.
    pub fault: WindowFault,
    /// The call site.
    pub site: Site,
}

/// Why it cannot.
///
/// See the example of [`BadWindow`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WindowFault {
    /// The memory is in a window of the communicator already.
    RegisteredTwice,
    /// The memory is not what was registered.
    OtherMemory,
    /// The memory is a part that does not begin where a window can.
    Misaligned {
        /// How many bytes of its allocation lie before it.
        before: usize,
    },
}

impl WindowFault {
    /// A window begins at a multiple of this, in bytes of its allocation
    /// (`NCCL_WIN_REQUIRED_ALIGNMENT`).
    pub(crate) const ALIGNMENT: usize = 4096;
}

impl fmt::Display for BadWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, fault, site } = self;
        match fault {
            WindowFault::RegisteredTwice => write!(
                f,
                "also_in: the memory is in a window of {name} already (at {site}): NCCL could not tell which of the two is meant; use that one, or another communicator"
            ),
            WindowFault::OtherMemory => write!(
                f,
                "of: the window has other memory than what was registered with {name} (at {site}); give the one that `also_in` was called on"
            ),
            WindowFault::Misaligned { before } => write!(
                f,
                "register_window: the memory begins {before} bytes into its allocation (at {site}), and NCCL's windows begin at multiples of {}; cut it where one begins, the next {} bytes further on; nothing was registered on {name}",
                WindowFault::ALIGNMENT,
                before.next_multiple_of(WindowFault::ALIGNMENT) - before
            ),
        }
    }
}
