//! Reports: an operation that was enqueued did not happen as requested.

use std::fmt;

use thiserror::Error;

use super::{Call, Error, Operation, Site};
use crate::Rank;

/// The ranks' calls differ. NCCL would hang or return wrong data.
///
/// ```
/// use typed_nccl::error::{CollectiveName, Operation};
/// use typed_nccl::{Error, Host, Sum, spmd};
///
/// spmd::<Host>(2, |place| {
///     let comm = place.init()?;
///     let mut x = comm.device().zeros::<f32>(4 + comm.rank().index())?;
///     comm.all_reduce_in_place(&mut x, Sum)?;
///     let Err(Error::Mismatch(differ)) = x.to_vec() else { panic!("4 is not 5") };
///     for (rank, call) in differ.calls {
///         assert_eq!(call.operation, Operation::Collective(CollectiveName::AllReduce));
///         assert_eq!(call.count, 4 + rank.index());
///         println!("rank {rank}: {}", call.site); // the line of `all_reduce_in_place`
///     }
///     comm.finish()
/// })
/// .expect("the communicator stays usable on the host");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Mismatch {
    /// The communicator's name.
    pub name: &'static str,
    /// What differs: `collective #3`, `transfer #0 from rank 1 to rank 2`.
    pub what: String,
    /// Each rank's call.
    pub calls: Vec<(Rank, Call)>,
    /// Whether it ended the communicator, because NCCL cannot take calls back.
    pub ended: bool,
}

impl Mismatch {
    /// The method that all of the calls come from, if they are not calls of the program's own.
    fn method(&self) -> Option<&'static str> {
        let mut methods = self.calls.iter().map(|(_, call)| call.site.method());
        let first = methods.next()??;
        methods.all(|other| other == Some(first)).then_some(first)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} differs between ranks:", self.what, self.name)?;
        let calls = self.calls.iter().map(|(rank, call)| (*rank, call));
        by_ranks(
            f,
            calls,
            |a, b| a.matches(b) && a.site == b.site,
            |f, call| write!(f, "called {call}"),
        )?;
        let transfer = matches!(
            self.calls.first(),
            Some((_, Call { operation: Operation::SendTo | Operation::RecvFrom, .. }))
        );
        let rule = match self.method() {
            Some("all_to_all_v") => {
                "the splits that the ranks pass must agree: of one declaration, scaled and transposed alike, for elements of one type"
            }
            Some(_) => {
                "the blocks that the ranks pass must agree: of one declaration, scaled alike, for elements of one type"
            }
            None if transfer => {
                "a rank's sends to another meet that one's receives in their order, of the same type and count, and leg by leg in an exchange"
            }
            None => "all ranks must make the same calls in the same order",
        };
        let after = if self.ended { "has ended" } else { "goes on" };
        write!(f, "; {rule}; the outputs are unspecified, the communicator {after}")
    }
}

/// Writes ` rank 1 x; ranks 0 and 2 y`, grouping ranks that say the same.
pub(super) fn by_ranks<'a, T: ?Sized + 'a>(
    f: &mut fmt::Formatter<'_>,
    said: impl IntoIterator<Item = (Rank, &'a T)>,
    same: impl Fn(&T, &T) -> bool,
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, (part, ranks)) in grouped(said, same).iter().enumerate() {
        let sep = if i == 0 { "" } else { ";" };
        write!(f, "{sep} {} ", Ranks(ranks))?;
        write(f, part)?;
    }
    Ok(())
}

/// Groups ranks that say the same.
pub(super) fn grouped<'a, T: ?Sized + 'a>(
    said: impl IntoIterator<Item = (Rank, &'a T)>,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<(&'a T, Vec<Rank>)> {
    let mut groups: Vec<(&T, Vec<Rank>)> = Vec::new();
    for (rank, part) in said {
        match groups.iter_mut().find(|(known, _)| same(known, part)) {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((part, vec![rank])),
        }
    }
    groups
}

/// [`by_ranks`] with one text per rank, in order.
pub(super) struct ByRanks<'a>(pub(super) &'a [String]);

impl fmt::Display for ByRanks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.0.iter().enumerate().map(|(rank, text)| (Rank::at(rank), text.as_str()));
        by_ranks(f, texts, |a, b| a == b, |f, text| f.write_str(text))
    }
}

/// Another rank refused its part of an operation.
///
/// ```
/// # use typed_nccl::{Error, Host, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let peer = 1 - comm.rank().index();
/// let mut x = comm.device().zeros::<f32>(4)?;
/// if comm.rank() == 0 {
///     comm.broadcast_in_place(&mut x, 0)?;
///     let Err(Error::Refused(refused)) = x.to_vec() else { panic!("rank 1 did not take part") };
///     assert!(refused.by == 1 && matches!(refused.reason, Error::NoSuchRank(_)));
/// } else {
///     assert!(comm.broadcast_in_place(&mut x, 7).is_err()); // no such root
/// }
/// # comm.finish() }).expect("every rank ends well");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{call}, on {name}, did not happen: rank {by} refused its part: {reason}")]
pub struct Refused {
    /// The communicator's name.
    pub name: &'static str,
    /// This rank's call.
    pub call: Call,
    /// The rank that refused.
    pub by: Rank,
    /// Its reason.
    pub reason: Error,
}

/// A peer's put and another use of a window's memory have no order. Both ranks get the error.
///
/// ```
/// use typed_nccl::error::{NoOrder, OtherUse};
/// use typed_nccl::{Error, Host, spmd};
///
/// spmd::<Host>(2, |place| {
///     let mut comm = place.init()?;
///     let (edge, ghost) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
///     if comm.rank() == 0 {
///         comm.put_signal(&edge, 1, ghost.at(0))?;
///         while comm.barrier().is_ok() {} // until rank 1 has found it
///         return Ok(comm.abort()).map(drop);
///     }
///     // `comm.wait_signal(0)` is missing. The put may come after the first reads.
///     let read = || ghost.to_vec().and_then(|_| comm.barrier());
///     let error = std::iter::repeat_with(read).find_map(Result::err);
///     let Some(Error::Hazard(hazard)) = error else { panic!("no order: {error:?}") };
///     assert!(hazard.rank == 1 && (hazard.start, hazard.end) == (0, 32)); // in bytes
///     if let Some(NoOrder { from, other: OtherUse { rank, is_put, .. }, .. }) = hazard.no_order {
///         assert!(from == 0 && rank == 1 && !is_put);
///     }
///     comm.abort();
///     Ok(())
/// })
/// .expect("both ranks are told");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Hazard {
    /// The window's owner.
    pub rank: Rank,
    /// The first byte of the window that both touched.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// The two uses; `None` if they met in time while the order of uses is not checked
    /// (`TYPED_NCCL_CHECK=off`).
    pub no_order: Option<NoOrder>,
}

/// A put and another use of the same memory without an order between them.
///
/// See the example of [`Hazard`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoOrder {
    /// The communicator's name.
    pub name: &'static str,
    /// The put.
    pub put: Call,
    /// Whether it is no put, but a plan that reads the window from another rank, as in `v = u of
    /// peer`.
    pub reads: bool,
    /// The rank that puts, or reads.
    pub from: Rank,
    /// Whether the put came first in this run.
    pub put_is_first: bool,
    /// The other use.
    pub other: OtherUse,
}

/// A use that is not ordered with a put.
///
/// See the example of [`Hazard`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherUse {
    /// Its rank: the window's owner, or another rank that puts there.
    pub rank: Rank,
    /// Where the program makes it.
    pub site: Site,
    /// Whether it is a put too.
    pub is_put: bool,
    /// Whether it writes.
    pub is_write: bool,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, start, end, no_order } = self;
        if let Some(no_order) = no_order {
            return no_order.write(f, *rank, *start, *end);
        }
        write!(
            f,
            "bytes {start}..{end} of a window of rank {rank} were touched by a peer's put and by the rank's own work at one time, at least one of them writing; nothing orders the two: wait for a signal before reading, and send one back before the next put; `TYPED_NCCL_CHECK=order` in the environment says where"
        )
    }
}

impl NoOrder {
    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        owner: Rank,
        start: usize,
        end: usize,
    ) -> fmt::Result {
        let Self { name, put, reads, from, put_is_first, other } = self;
        let (start, end) = (start / put.dtype.size(), end.div_ceil(put.dtype.size()));
        write!(f, "{start}..{end} of a window of {} of rank {owner} on {name}: ", put.dtype)?;
        let does = if *reads { "reads" } else { "puts" };
        let puts = format!("rank {from} {does} at {}", put.site);
        let OtherUse { rank, site, is_put, is_write } = other;
        let verb = match (is_put, is_write) {
            (true, _) => "puts",
            (false, true) => "writes",
            (false, false) => "reads",
        };
        let uses = format!("rank {rank} {verb} at {}", site);
        let (first, second) = if *put_is_first { (puts, uses) } else { (uses, puts) };
        write!(f, "{first}, {second}, and nothing orders the two; ")?;
        match is_put {
            _ if *reads => write!(
                f,
                "if the read shall see what is written, call `comm.signal({from})` after the write, and `comm.wait_signal({rank})` on rank {from} before the read; if what was there before, `comm.wait_signal({from})` before the write, and `comm.signal({rank})` on rank {from} after the read (between a plan's runs: a barrier)"
            ),
            false if from == rank && put.site == *site => {
                write!(
                    f,
                    "the put itself reads them, as its source and its target overlap: put to another part of the window"
                )
            }
            true if from == rank => write!(
                f,
                "put both in one context, or wait for a signal of rank {owner} in between"
            ),
            true => write!(
                f,
                "on rank {owner}, wait for the signal of the first put, then signal rank {rank}, and have rank {rank} wait for that signal before it puts"
            ),
            false => {
                let (noun, sees, saw) = match is_write {
                    true => ("write", "come after the put", "before"),
                    false => ("read", "see what is put", "what was there before"),
                };
                write!(f, "if the {noun} shall {sees}, call `comm.wait_signal(")?;
                match *rank == owner {
                    true => write!(f, "{from})` before it")?,
                    // The signal of a put goes to the owner.
                    false => write!(
                        f,
                        "{owner})` before it, and on rank {owner} `comm.wait_signal({from})`, then `comm.signal({rank})`"
                    )?,
                }
                write!(
                    f,
                    "; if {saw}, `comm.signal({from})` after it, and `comm.wait_signal({rank})` on rank {from} before the put (between a plan's runs: a barrier)"
                )
            }
        }?;
        if *is_write && !is_put {
            write!(
                f,
                "; a write that is not meant for {start}..{end} names its own part: `x.slice_mut(a..b)`"
            )?;
        }
        Ok(())
    }
}

/// A closure given to `Stream::launch` panicked. The calls that this rank had enqueued behind it,
/// before a host wait reported it, are refused on all ranks.
///
/// ```
/// # use typed_nccl::{Error, Host};
/// let host = Host::local()?;
/// let mut x = host.zeros::<f32>(4)?;
/// host.stream()?.launch(&mut x, |_, ()| panic!("no data"))?;
/// assert!(matches!(x.to_vec(), Err(Error::Panicked(it)) if it.message == "no data"));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "the closure launched at {site} panicked: {message}; the contents of the memory that it writes are unspecified"
)]
pub struct Panicked {
    /// The panic's message.
    pub message: String,
    /// Where it was launched.
    pub site: Site,
}

/// The ranks' host-side calls differ, or a value does not decode as the requested type.
///
/// ```
/// # use typed_nccl::{Error, Host, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let outcome = match comm.rank().index() {
///     0 => comm.gather_values(&5_i32).map(drop),
///     _ => comm.gather_values(&7_u32).map(drop),
/// };
/// let Err(Error::ValueMismatch(differ)) = outcome else { panic!("i32 is not u32") };
/// assert_eq!(differ.rank.index(), 1 - comm.rank().index());
/// # comm.finish() }).expect("every rank ends well");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation}: rank {rank} {found}; all ranks must make the same host-side calls with values of one type"
)]
pub struct ValueMismatch {
    /// This rank's call.
    pub operation: &'static str,
    /// The rank whose call or value differs.
    pub rank: Rank,
    /// What differs.
    pub found: String,
}

/// `rank 3`, `ranks 0 and 2`, `ranks 0, 1 and 4`.
pub(crate) struct Ranks<'a>(pub(crate) &'a [Rank]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no rank"),
            [one] => write!(f, "rank {one}"),
            [first, middle @ .., last] => {
                write!(f, "ranks {first}")?;
                for rank in middle {
                    write!(f, ", {rank}")?;
                }
                write!(f, " and {last}")
            }
        }
    }
}
