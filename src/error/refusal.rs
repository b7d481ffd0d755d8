//! Refusals: bad input that this rank detected before anything was sent.

use std::fmt;

use thiserror::Error;

use super::Site;
use crate::rank::MOST;
use crate::{DType, ReductionName};

/// The end of the message of every refused collective.
pub(super) const UNHARMED: &str = "nothing was sent, and the other ranks are told";

/// The end of the message of a refused call in which other ranks may take part.
fn unharmed(collective: &bool) -> String {
    if *collective { format!("; {UNHARMED}") } else { String::new() }
}

/// A buffer's length does not fit the operation.
///
/// ```
/// # use typed_nccl::{Buffer, Error, Host, Root, Seat, Sum};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(7)?);
/// let Err(Error::BadLength(bad)) = comm.all_reduce(&x, &mut y, Sum) else { panic!("7 is not 8") };
/// assert_eq!((bad.operation, bad.buffer, bad.found, bad.needed), ("all_reduce", "receive", 7, 8));
///
/// let refused = x.slice(4..9).to_vec();
/// assert!(matches!(refused, Err(Error::BadRange(bad)) if (bad.end, bad.len) == (9, 8)));
/// let refused = comm.broadcast_in_place(&mut y, 7);
/// assert!(matches!(refused, Err(Error::NoSuchRank(none)) if (none.asked, none.size) == (7, 1)));
/// let nothing: Root<&Buffer<f32, Host>> = Root::There(comm.rank());
/// let refused = comm.scatter(nothing, &mut y);
/// assert!(matches!(refused, Err(Error::NoBuffer(none)) if none.root == 0));
/// let refused = comm.splits(&[usize::MAX]);
/// assert!(matches!(refused, Err(Error::SplitsTooLong(long)) if long.counts == [usize::MAX]));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{operation}: the {buffer} buffer holds {found} {dtype}, {because} need {needed} (at {site}); {instead}take {needed} elements, or a slice of that length{}", unharmed(.collective))]
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
    /// The arguments that would fit this buffer, where they are known: `for rows of 8 elements pass
    /// .., otherwise `. Empty where they are not.
    pub instead: String,
    /// The call site.
    pub site: Site,
    /// Whether other ranks take part in the operation.
    pub collective: bool,
}

impl BadLength {
    /// In a call of one rank. Set `collective` for other calls.
    #[cold]
    pub(crate) fn new(
        operation: &'static str,
        buffer: &'static str,
        dtype: DType,
        (found, needed): (usize, usize),
        because: impl Into<String>,
        site: Site,
    ) -> Self {
        let (because, instead) = (because.into(), String::new());
        Self { operation, buffer, dtype, found, needed, because, instead, site, collective: false }
    }
}

/// A view reaches past its buffer.
///
/// See the example of [`BadLength`].
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
///
/// See the example of [`BadLength`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{operation}: there is no rank {} in a communicator of {size} (at {site}); ranks count from 0 to {}{}", number(*.asked), .size.saturating_sub(1), unharmed(.collective))]
pub struct NoSuchRank {
    /// The method.
    pub operation: &'static str,
    /// The rank asked for; 16,777,215 if it was computed as one below 0 or past the last.
    pub asked: usize,
    /// The communicator's size.
    pub size: usize,
    /// The call site.
    pub site: Site,
    /// Whether other ranks take part in the operation.
    pub collective: bool,
}

fn number(asked: usize) -> String {
    match asked {
        MOST => "below 0 or past the last".to_owned(),
        _ => asked.to_string(),
    }
}

/// A root that passed `Root::There`, and so no buffer.
///
/// See the example of [`BadLength`].
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
///
/// ```
/// # use typed_nccl::{Error, Host};
/// let refused = Host::local()?.zeros::<u64>(usize::MAX);
/// assert!(matches!(refused, Err(Error::Overflow(much)) if much.count == usize::MAX));
/// let refused = Host::local()?.zeros::<u8>(1 << 60);
/// assert!(matches!(refused, Err(Error::NoMemory(none)) if none.bytes == 1 << 60));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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

impl Overflow {
    /// The size of a buffer of `count` elements, in bytes.
    pub(crate) fn unless_fits(
        operation: &'static str,
        count: usize,
        dtype: DType,
        site: Site,
    ) -> Result<usize, Self> {
        let too_long = || Self { operation, count, times: 1, dtype, site, collective: false };
        dtype.bytes_of(count).ok_or_else(too_long)
    }
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

/// Memory or a stream of another device, which the type does not show (`AnyDevice`).
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, Sum};
/// let comm = Seat::local(1).remove(0).init(Host::any(0)?)?;
/// let mut x = Host::any(5)?.zeros::<f32>(4)?;
/// let Err(Error::OtherDevice(other)) = comm.all_reduce_in_place(&mut x, Sum) else { panic!("5") };
/// assert_eq!((other.found, other.needed), (5, 0));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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

impl OtherDevice {
    /// Fails unless `what` is on the device where it must be.
    #[inline]
    pub(crate) fn unless_same(
        operation: &'static str,
        what: &'static str,
        kind: &'static str,
        (found, needed): (u32, u32),
        site: Site,
    ) -> Result<(), Self> {
        match found == needed {
            true => Ok(()),
            false => Err(Self { operation, what, kind, found, needed, site }),
        }
    }
}

/// A resource of another communicator.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut other = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (half, mut x) = (other.pre_mul_sum(0.5_f32)?, comm.device().zeros(4)?);
/// let refused = comm.all_reduce_in_place(&mut x, &half);
/// assert!(matches!(refused, Err(Error::WrongCommunicator(it)) if it.made_by != it.used_on));
/// # drop(half);
/// # other.finish()?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
///
/// ```
/// # use typed_nccl::{Error, Host, Requirements, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (api, need) = (comm.device_api()?, Requirements::new().lsa_barriers(1));
/// let dev = comm.dev_comm(&api, &need)?;
/// let mut graph = comm.capture(|g| g.launch(&dev, |dev, ()| dev.lsa_barrier(0).sync()))?;
/// comm.close_dev_comm(dev)?;
/// let Err(Error::Stale(stale)) = graph.launch(&comm) else { panic!("it was closed") };
/// assert!(stale.why.contains("closed"));
/// # drop(graph);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
///
/// ```
/// # use typed_nccl::{Error, Invitation};
/// let half = Invitation::from_bytes(&[0; 7]);
/// assert!(matches!(half, Err(Error::BadInvitation(bad)) if bad.why.contains("7 bytes")));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the invitation (at {site}) cannot be taken: {why}")]
pub struct BadInvitation {
    /// Why, and the remedy.
    pub why: String,
    /// Where it was passed.
    pub site: Site,
}

/// A rank from before a communicator renumbered its ranks.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let before = comm.rank();
/// comm.recover()?; // the ranks may have other numbers now
/// let mut x = comm.device().zeros::<f32>(1)?;
/// assert!(matches!(comm.recv(&mut x, before), Err(Error::StaleRank(stale)) if stale.asked == 0));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
///
/// See the example of [`Overflow`].
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
///
/// ```
/// # use typed_nccl::{Cart, Error, Host, Seat, tag};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// tag!(Pair);
/// let refused = comm.split_into::<Pair>(&[[0, 0]]).map(drop);
/// assert!(matches!(refused, Err(Error::BadGroups(bad)) if bad.why.contains("rank 0")));
/// let refused = Cart::over(&comm, [2, 3], true);
/// assert!(matches!(refused, Err(Error::BadGrid(bad)) if bad.dims == [2, 3] && bad.ranks == 1));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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

/// A colour of a split that is below 0.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, tag};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// tag!(Half);
/// let refused = comm.split::<Half>(-1, 0).map(drop);
/// assert!(matches!(refused, Err(Error::BadColor(bad)) if bad.found == -1));
/// assert!(comm.split_some::<Half>(None, 0)?.is_none());
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "split: the colour {found} is below 0 (at {site}); a rank that joins no child calls `split_some::<L>(None, key)`; {UNHARMED}"
)]
pub struct BadColor {
    /// The colour.
    pub found: i128,
    /// The call site.
    pub site: Site,
}

/// A grid whose number of places differs from the number of ranks.
///
/// See the example of [`BadGroups`].
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
///
/// ```
/// # use typed_nccl::{Avg, DType, DynBuffer, Error, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut x = DynBuffer::zeros(comm.device(), DType::I32, 4)?;
/// let refused = comm.all_reduce_in_place(&mut x, Avg);
/// assert!(matches!(refused, Err(Error::NotReducible(not)) if not.dtype == DType::I32));
/// let Err(Error::OtherDType(other)) = x.typed::<f32>() else { panic!("it has integers") };
/// assert_eq!((other.found, other.expected), (DType::I32, DType::F32));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
///
/// See the example of [`OtherDType`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation}: `{reduction}` cannot reduce {dtype} (at {site}): {}; {UNHARMED}",
    reduction.remedy(*dtype)
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
///
/// See the example of [`LanesDiffer`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "per-rank values of another clique were used (at {site}): make them with this one's `alloc` or `per_rank`; nothing was sent"
)]
pub struct OtherClique {
    /// The call site.
    pub site: Site,
}

/// Clique ranks recorded operations that cannot complete by themselves.
///
/// ```
/// # use typed_nccl::{Clique, Error, Host, Sum};
/// let clique = || Clique::init(Host::open_each(&[0, 1])?);
/// let (mut mine, other) = (clique()?, clique()?);
/// let mut x = mine.alloc::<f32>(4)?;
/// let refused = mine.group(&mut x, |lane, x| match lane.index() {
///     0 => lane.all_reduce_in_place(x, Sum),
///     _ => Ok(()), // this rank's is missing
/// });
/// assert!(matches!(refused, Err(Error::LanesDiffer(it)) if it.what.contains("all_reduce")));
/// assert!(matches!(other.to_host(&x), Err(Error::OtherClique(_))));
/// # mine.finish()?;
/// # other.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
///
/// See the example of [`device_tag!`](crate::device_tag).
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
///
/// ```
/// # use typed_nccl::{Error, Host};
/// let (tell, told) = std::sync::mpsc::channel();
/// let (host, mut x) = (Host::local()?, Host::local()?.zeros::<f32>(4)?);
/// let other = host.stream()?;
/// host.stream()?.launch(&mut x, move |_, ()| {
///     let _ = tell.send(other.sync());
/// })?;
/// let refused = told.recv().expect("the closure ran");
/// assert!(matches!(refused, Err(Error::WaitInLaunch(wait)) if wait.operation == "sync"));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
///
/// ```standalone_crate
/// # use typed_nccl::{Communicator, Device, Error, Result, launch};
/// fn body<D: Device>(comm: Communicator<D>) -> Result<()> {
///     comm.finish()
/// }
/// // As in `TYPED_NCCL=host:none program`.
/// // SAFETY: no other thread is running yet.
/// unsafe { std::env::set_var("TYPED_NCCL", "host:none") };
/// assert!(matches!(launch!(body), Err(Error::SizeVariable(it)) if it.found == "host:none"));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "TYPED_NCCL is `{found}`; it takes `host:8` for eight host ranks in this process, `host:8,processes` for a process each, `host` for the one rank that a launcher starts, `cuda:8` for a process on each of eight GPUs, `cuda` for one on every GPU, `cuda-threads:8` for eight GPUs in one process, and `,survive` behind one with several ranks so that the others go on when one fails; with numbers from 1 to {}",
    crate::rank::MOST_IN_PROCESS
)]
pub struct SizeVariable {
    /// Its value.
    pub found: String,
}
