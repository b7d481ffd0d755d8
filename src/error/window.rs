//! Failures of windows, one-sided operations, transfers and groups.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::refusal::UNHARMED;
use super::report::ByRanks;
use crate::{DType, Rank};

/// A put that ends past the peer's memory in the window.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WindowFault {
    /// The memory is in a window of the communicator already.
    RegisteredTwice,
    /// The memory is not what was registered.
    OtherMemory,
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
        }
    }
}
