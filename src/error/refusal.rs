//! Refusals: bad input that this rank detected before anything was sent.

use std::fmt;

use thiserror::Error;

use super::Site;
use crate::{DType, ReductionName};

/// The end of the message of every refused collective.
pub(super) const UNHARMED: &str = "nothing was sent and the communicator is unharmed, but the other ranks may be waiting: they are told of this refusal";

/// The end of the message of a refused call in which other ranks may take part.
fn unharmed(collective: &bool) -> String {
    if *collective { format!("; {UNHARMED}") } else { String::new() }
}

/// A buffer's length does not fit the operation.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{operation}: the {buffer} buffer holds {found} {dtype}, {because} need {needed} (at {site}); take {needed} elements, or a slice of that length{}", unharmed(.collective))]
pub struct BadLength {
    /// The method.
    pub operation: &'static str,
    /// The buffer: `receive` or `send`.
    pub buffer: &'static str,
    /// The element type.
    pub dtype: DType,
    /// How many elements it holds.
    pub found: usize,
    /// How many elements are needed.
    pub needed: usize,
    /// The reason: `4 ranks x 1024`.
    pub because: String,
    /// The call site.
    pub site: Site,
    /// Whether other ranks take part in the operation.
    pub collective: bool,
}

/// A view reaches past its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub struct BadRange {
    /// The first element asked for.
    pub start: usize,
    /// One past the last element asked for.
    pub end: usize,
    /// How many elements there are.
    pub len: usize,
    /// Where the view was made.
    pub site: Site,
}

impl fmt::Display for BadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, len, site } = self;
        if start > end {
            write!(f, "the range {start}..{end} of a buffer ends before it starts (at {})", site)
        } else {
            write!(
                f,
                "the range {start}..{end} reaches past a buffer of {len} elements (at {})",
                site
            )
        }
    }
}

/// A rank or root that the communicator does not have.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{operation}: there is no rank {asked} in a communicator of {size} (at {site}); ranks count from 0 to {}{}", .size.saturating_sub(1), unharmed(.collective))]
pub struct NoSuchRank {
    /// The method.
    pub operation: &'static str,
    /// The rank asked for.
    pub asked: usize,
    /// The communicator's size.
    pub size: usize,
    /// The call site.
    pub site: Site,
    /// Whether other ranks take part in the operation.
    pub collective: bool,
}

/// A root that passed `Root::There`, and so no buffer.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation}: rank {root} is the root itself and gave no buffer (at {site}); pass `Root::Here(&buffer)` there; {UNHARMED}"
)]
pub struct NoBuffer {
    /// The method.
    pub operation: &'static str,
    /// This rank, the root.
    pub root: crate::Rank,
    /// The call site.
    pub site: Site,
}

/// A count that does not fit into memory.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Overflow {
    /// The method.
    pub operation: &'static str,
    /// Elements per rank.
    pub count: usize,
    /// Ranks, or 1.
    pub times: usize,
    /// The element type.
    pub dtype: DType,
    /// The call site.
    pub site: Site,
    /// Whether other ranks take part in the operation.
    pub collective: bool,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, count, times, dtype, site, collective } = self;
        write!(f, "{operation}: ")?;
        if *times > 1 {
            write!(f, "{times} ranks x ")?;
        }
        let mend =
            if *collective { "send fewer elements at a time" } else { "take fewer elements" };
        write!(
            f,
            "{count} {dtype} of {} bytes are more than a buffer can hold (at {}); {mend}",
            dtype.size(),
            site
        )?;
        f.write_str(&unharmed(collective))
    }
}

/// Declared lengths of which one rank's exceed what a buffer can hold.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct SplitsTooLong {
    /// The method.
    pub operation: &'static str,
    /// The rank.
    pub rank: crate::Rank,
    /// Whether the rank receives these elements; it sends them otherwise.
    pub receives: bool,
    /// The number of elements from or to each rank.
    pub counts: Vec<usize>,
    /// The call site.
    pub site: Site,
}

impl fmt::Display for SplitsTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, rank, receives, counts, site } = self;
        let (does, side) = if *receives { ("receive", "from") } else { ("send", "to") };
        write!(
            f,
            "{operation}: rank {rank} would {does} {counts:?} elements {side} the ranks, more than a buffer can hold (at {}); declare fewer on all ranks; nothing was sent",
            site
        )
    }
}

/// Memory or a stream of another device, which the type does not show (`AnyDevice`).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation}: the {what} is on {kind}:{found}, this takes {kind}:{needed} (at {site}); make it with `comm.device()`; {UNHARMED}"
)]
pub struct OtherDevice {
    /// The method.
    pub operation: &'static str,
    /// What is on the other device: `send buffer`, `receive buffer`, `stream`.
    pub what: &'static str,
    /// The kind of device.
    pub kind: &'static str,
    /// The ordinal where it is.
    pub found: u32,
    /// The ordinal where it must be.
    pub needed: u32,
    /// The call site.
    pub site: Site,
}

/// A resource of another communicator.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct WrongCommunicator {
    /// What was used: `PreMulSum`.
    pub what: &'static str,
    /// The name of the communicator that created it.
    pub maker: &'static str,
    /// The name of the communicator that it was used with.
    pub name: &'static str,
    /// The number of the communicator that created it, among those of its name.
    pub made_by: u32,
    /// The number of the communicator that it was used with, among those of its name.
    pub used_on: u32,
}

impl fmt::Display for WrongCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, maker, name, made_by, used_on } = self;
        write!(f, "a {what} of {maker}#{made_by} was used on {name}#{used_on}: ")?;
        f.write_str(match maker == name {
            true => "two communicators of one name; make it there, or name them with `tag!`",
            false => "make it there",
        })
    }
}

/// A value that belongs to a communicator's ranks before they changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("a {what} of {name} is stale: {why}; make it again; nothing was sent")]
pub struct Stale {
    /// What was used: `signal`.
    pub what: &'static str,
    /// The communicator's name.
    pub name: &'static str,
    /// Why it is stale.
    pub why: String,
}

/// An invitation that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the invitation (at {site}) cannot be taken: {why}")]
pub struct BadInvitation {
    /// Why, and the remedy.
    pub why: String,
    /// Where it was passed.
    pub site: Site,
}

/// A rank from before a communicator renumbered its ranks.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct StaleRank {
    /// The method.
    pub operation: &'static str,
    /// The old number of the rank.
    pub asked: usize,
    /// The communicator's name.
    pub name: &'static str,
    /// Its size.
    pub size: usize,
    /// The size after the last renumbering, and where it happened. `None` if the ranks were never
    /// renumbered: then the rank belongs to another communicator, whose ranks were.
    pub since: Option<(usize, Site)>,
    /// Where the rank was used.
    pub site: Site,
    /// Whether other ranks take part in the operation.
    pub collective: bool,
}

impl fmt::Display for StaleRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, asked, name, size, since, site, collective } = self;
        write!(
            f,
            "{operation}: rank {asked} is not one of the {size} that {name} has now (at {site}): "
        )?;
        match since {
            Some((ranks, since)) => write!(
                f,
                "it is of before {name} went on with {ranks} (at {since}), which are numbered anew; `recovery.now(rank)` is its number now, if it lives"
            )?,
            None => f.write_str(
                "it is of a communicator whose ranks had other numbers, before or after one died; ask this one for its ranks: `comm.peer(number)?`",
            )?,
        }
        f.write_str(&unharmed(collective))
    }
}

/// Memory could not be allocated.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct NoMemory {
    /// The size in bytes.
    pub bytes: usize,
    /// The kind of device.
    pub kind: &'static str,
    /// The device's ordinal.
    pub ordinal: u32,
    /// Bytes of dropped buffers that are kept for later ones of the same sizes. Releasing them
    /// waits for all work of the device, so they are kept while there is any.
    pub kept: usize,
    /// Bytes of dropped buffers that enqueued work may still use.
    pub in_use: usize,
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, kind, ordinal, kept, in_use } = self;
        write!(f, "{kind}:{ordinal} has no {bytes} bytes of memory to give")?;
        if *kept > 0 {
            write!(
                f,
                "; {kept} bytes of dropped buffers are kept for others of their sizes, and cannot be given back while work is in flight: wait for it, and try again"
            )?;
        }
        if *in_use > 0 {
            write!(f, "; work in flight may use {in_use} bytes of dropped buffers: wait for it")?;
        }
        f.write_str("; free some, or take less")
    }
}

/// Lists of ranks, or a grid, that do not divide the communicator.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "split: {why} (at {site}); each rank belongs to one list at most, and all ranks give the same; {UNHARMED}"
)]
pub struct BadGroups {
    /// What is wrong with them.
    pub why: String,
    /// The call site.
    pub site: Site,
}

/// A grid whose number of places differs from the number of ranks.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct BadGrid {
    /// The number of places along each axis.
    pub dims: Vec<usize>,
    /// The number of ranks.
    pub ranks: usize,
    /// The call site.
    pub site: Site,
}

impl fmt::Display for BadGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dims, ranks, site } = self;
        let places = match dims.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim)) {
            Some(places) => places.to_string(),
            None => format!("more than {}", usize::MAX),
        };
        write!(
            f,
            "Cart::over: a grid of dimensions {dims:?} has {places} places, and the communicator has {ranks} ranks (at {site}); give dimensions whose product is {ranks}"
        )
    }
}

/// Data types that differ, detected at run time.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{operation}: found {found}, expected {expected} (at {site}); both sides of an operation hold one data type{}", unharmed(.collective))]
pub struct OtherDType {
    /// The method.
    pub operation: &'static str,
    /// The data type of one side.
    pub found: DType,
    /// The data type of the other side, or the requested one.
    pub expected: DType,
    /// The call site.
    pub site: Site,
    /// Whether other ranks take part in the operation.
    pub collective: bool,
}

/// An average of integers, detected at run time.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation}: `{reduction}` cannot reduce {dtype} (at {site}): {}; {UNHARMED}",
    reduction.remedy()
)]
pub struct NotReducible {
    /// The method.
    pub operation: &'static str,
    /// The reduction.
    pub reduction: ReductionName,
    /// The data type.
    pub dtype: DType,
    /// The call site.
    pub site: Site,
}

/// A `PerRank` of another clique, or of several cliques.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "per-rank values of another clique were used (at {site}): make them with this one's `alloc` or `per_rank`; nothing was sent"
)]
pub struct OtherClique {
    /// The call site.
    pub site: Site,
}

/// Clique ranks recorded operations that cannot complete by themselves.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "in one group of a clique, {what} (at {site}); one thread calls for all ranks, so each group needs the same collectives on every rank and both halves of every transfer; nothing was sent"
)]
pub struct LanesDiffer {
    /// What two ranks recorded.
    pub what: String,
    /// The call site.
    pub site: Site,
}

/// A device tag that names a different ordinal.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "the tag `{tag}` names {kind}:{holds} and cannot name {kind}:{asked} too; mint a second tag with `device_tag!`, or use `AnyDevice`"
)]
pub struct TagTaken {
    /// The tag.
    pub tag: &'static str,
    /// The kind of device.
    pub kind: &'static str,
    /// The ordinal that the tag names.
    pub holds: u32,
    /// The ordinal asked for.
    pub asked: u32,
}

/// A host wait inside a closure that `Stream::launch` runs.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation} waits, and a closure given to `stream.launch` may not (at {site}): it would hold up its own stream; wait after the launch"
)]
pub struct WaitInLaunch {
    /// The method.
    pub operation: &'static str,
    /// The call site.
    pub site: Site,
}

/// `TYPED_NCCL` cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "TYPED_NCCL is `{found}`; it takes `host:8` for eight host ranks in this process, `host:8,processes` for a process each, `host` for the one rank that a launcher starts, `cuda:8` for a process on each of eight GPUs, `cuda` for one on every GPU, `cuda-threads:8` for eight GPUs in one process, and `,survive` behind one with several ranks so that the others go on when one fails; with numbers from 1 to {}",
    crate::rank::MOST_IN_PROCESS
)]
pub struct SizeVariable {
    /// Its value.
    pub found: String,
}
