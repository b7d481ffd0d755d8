//! Failures of plans when they are bound by all ranks, and when they run.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::refusal::UNHARMED;
use super::report::ByRanks;
use crate::{DType, Rank};

/// The ranks bind different plans, or one of them cannot bind its own.
///
/// ```
/// # use typed_nccl::{Error, Host, plans::ring_exchange, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let params = ring_exchange::Params { len: 4 + comm.rank().index() };
/// let bound = ring_exchange::bind::<f32, _>(&mut comm, params).map(drop);
/// let Err(Error::PlansDiffer(differ)) = bound else { panic!("4 is not 5") };
/// assert_eq!(differ.parts.len(), 2);
/// # comm.finish() }).expect("every rank ends well");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the ranks of {name} bind different plans (at {site}):{}; bind the same plan with the same sizes on all ranks; none is bound", ByRanks(.parts))]
pub struct PlansDiffer {
    /// The communicator's name.
    pub name: &'static str,
    /// What each rank binds (the plan, its sizes, its hash), or why it cannot.
    pub parts: Vec<String>,
    /// Where this rank binds.
    pub site: Site,
}

/// A bound plan is run with a communicator that it was not bound to.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, plans::barrier};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut other = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut all_here = barrier::bind(&mut other)?;
/// assert!(matches!(all_here.run(&comm), Err(Error::BoundElsewhere(it)) if it.plan == "barrier"));
/// # drop(all_here);
/// # other.finish()?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct BoundElsewhere {
    /// The plan's name.
    pub plan: String,
    /// The communicator that it was bound to, and its size.
    pub bound: (&'static str, usize),
    /// The communicator that it was run with, and its size.
    pub found: (&'static str, usize),
    /// The call site.
    pub site: Site,
}

impl fmt::Display for BoundElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, bound, found, site } = self;
        write!(f, "plan `{plan}` is bound to ")?;
        match bound.1 == found.1 {
            true => write!(f, "another communicator than this {}", found.0)?,
            false => {
                write!(f, "{} of {} ranks, and this {} has {}", bound.0, bound.1, found.0, found.1)?
            }
        }
        write!(f, " (at {}): bind it again, to this one; nothing was sent", site)
    }
}

/// A plan for one run is run again without binding it again: a second run was not checked.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, Sum, plan::{self, Values, build::PlanBuilder}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut plan = PlanBuilder::new("start");
/// plan.ranks(1..);
/// plan.once();
/// let (x, net) = (plan.in_out::<f32>("x", 1), plan.stream("net"));
/// plan.on(net).all_reduce_in_place(x, Sum);
/// let checked = plan.check().expect("a plan that is right");
///
/// let mut start = plan::bind(&mut comm, checked.plan(), &Values::new())?;
/// let mut x = comm.device().zeros::<f32>(1)?;
/// start.on(&comm).write("x", &mut x).run(&mut ())?;
/// let again = start.on(&comm).write("x", &mut x).run(&mut ());
/// assert!(matches!(again, Err(Error::RanAlready(it)) if it.plan == "start"));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "plan `{plan}` is for one run, and has had it (at {site}): bind it again for another run, or declare it without `#[once]`; nothing was sent"
)]
pub struct RanAlready {
    /// The plan's name.
    pub plan: String,
    /// The call site.
    pub site: Site,
}

/// Memory that does not fit the plan it was passed to.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, error::ArgumentFault, plans::ring_exchange};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut ring = ring_exchange::bind::<f32, _>(&mut comm, ring_exchange::Params { len: 4 })?;
/// let (a, mut b) = (comm.device().zeros(4)?, comm.device().zeros(3)?);
/// let refused = ring.run(&comm, ring_exchange::Buffers { a: &a, b: &mut b });
/// let Err(Error::BadArgument(bad)) = refused else { panic!("3 is not 4") };
/// assert_eq!(bad.buffer, "b");
/// assert_eq!(bad.why, ArgumentFault::Length { index: None, found: 3, needed: 4 });
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct BadArgument {
    /// The plan's name.
    pub plan: String,
    /// The plan's name for the memory.
    pub buffer: String,
    /// What is wrong with it.
    pub why: ArgumentFault,
    /// The call site.
    pub site: Site,
}

/// Why memory does not fit a plan.
///
/// See the example of [`BadArgument`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentFault {
    /// It was not passed.
    Missing,
    /// The plan does not take such memory.
    Unknown {
        /// The names of the memory it takes.
        known: Vec<String>,
    },
    /// It was passed twice.
    Twice,
    /// It was passed as read-only, and the plan writes it.
    ReadOnly,
    /// It has a different element type.
    DataType {
        /// Its type.
        found: DType,
        /// The plan's type.
        needed: DType,
    },
    /// It has a different length; in an array, the buffer at `index`.
    Length {
        /// The buffer's index in an array.
        index: Option<usize>,
        /// Its length in elements.
        found: usize,
        /// The plan's length in elements.
        needed: usize,
    },
    /// A different number of buffers; 1 for a single one.
    Count {
        /// The number of buffers.
        found: usize,
        /// The plan's number.
        needed: usize,
    },
    /// The plan expects a window and this is not one, or the reverse.
    Registration {
        /// Whether the plan expects a window.
        needed: bool,
    },
    /// The ranks' lengths of the window differ.
    Uneven,
    /// A list of another length, of numbers that a run passes.
    Numbers {
        /// How many numbers were passed.
        found: usize,
        /// How many the plan takes.
        needed: usize,
    },
    /// A number that a run passes is above the most that the plan is bound for.
    Most {
        /// Its index in the list.
        index: usize,
        /// The number that was passed.
        found: usize,
        /// The most that the plan is bound for.
        most: usize,
    },
    /// Another rank passed a different window for the same run.
    OtherWindow {
        /// The window's number.
        found: u64,
        /// The other rank.
        by: Rank,
        /// The number of the other rank's window.
        theirs: u64,
    },
    /// The plan expects two copies and this is not, or the reverse.
    Copies {
        /// Whether the plan expects two copies.
        needed: bool,
    },
}

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, buffer, why, site } = self;
        write!(f, "plan `{plan}`: `{buffer}` ")?;
        match why {
            ArgumentFault::Missing => f.write_str("is not given; give all that the plan names"),
            ArgumentFault::Unknown { known } if known.is_empty() => {
                f.write_str("is given, and the plan takes no memory")
            }
            ArgumentFault::Unknown { known } => {
                write!(f, "is no memory of the plan's, which are `{}`", known.join("`, `"))
            }
            ArgumentFault::Twice => f.write_str("is given twice"),
            ArgumentFault::ReadOnly => {
                f.write_str("is written by the plan, and given to be read; give it with `write`")
            }
            ArgumentFault::DataType { found, needed } => {
                write!(f, "has elements of {found}, the plan's are {needed}")
            }
            ArgumentFault::Length { index, found, needed } => {
                if let Some(index) = index {
                    write!(f, "[{index}] ")?;
                }
                write!(
                    f,
                    "has {found} elements, the plan's has {needed}: give one of that length, or bind the plan for this one"
                )
            }
            ArgumentFault::Count { found, needed } => {
                write!(f, "is {found} buffers, the plan's are {needed}")
            }
            ArgumentFault::Registration { needed: true } => {
                f.write_str("is a buffer, the plan's is a window: `comm.window(len)` makes one")
            }
            ArgumentFault::Registration { needed: false } => {
                f.write_str("is a window, the plan's is a buffer")
            }
            ArgumentFault::Numbers { found, needed } => {
                write!(f, "is {found} numbers, the plan's are {needed}")
            }
            ArgumentFault::Most { index, found, most } => write!(
                f,
                "[{index}] is {found}, and the plan is bound for at most {most}: pass fewer, or bind it for as many"
            ),
            ArgumentFault::Uneven => f.write_str(
                "is a window whose parts differ in length, the plan's are alike: `comm.window(len)`",
            ),
            ArgumentFault::OtherWindow { found, by, theirs } => write!(
                f,
                "is window #{found}, and rank {by} gave window #{theirs} for the same run, so puts would miss: give the same windows on all ranks, in the order in which they were made"
            ),
            ArgumentFault::Copies { needed: true } => {
                f.write_str("is one, the plan's are two copies that swap: `Swapped::new(a, b)`")
            }
            ArgumentFault::Copies { needed: false } => {
                f.write_str("is two copies that swap, the plan's is one")
            }
        }?;
        write!(f, " (at {}); {UNHARMED}", site)
    }
}

/// A compute step that requests what its plan does not provide.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, Sum, plan::{self, Call, Values, build::PlanBuilder}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut plan = PlanBuilder::new("fill");
/// plan.ranks(1..);
/// let (x, net) = (plan.in_out::<f32>("x", 4), plan.stream("net"));
/// plan.on(net).run("ones").writes(x);
/// plan.on(net).all_reduce_in_place(x, Sum);
/// let checked = plan.check().expect("a plan that is right");
///
/// let mut fill = plan::bind(&mut comm, checked.plan(), &Values::new())?;
/// let mut x = comm.device().zeros::<f32>(4)?;
/// let refused = fill.on(&comm).write("x", &mut x).run(&mut |call: &mut Call<'_, Host>| {
///     call.write::<f64>(0).map(drop) // it is of `f32`
/// });
/// assert!(matches!(refused, Err(Error::BadStep(bad)) if bad.step == "ones"));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("plan `{plan}`, step `{step}`: {why}; {UNHARMED}")]
pub struct BadStep {
    /// The plan's name.
    pub plan: String,
    /// The step's name.
    pub step: String,
    /// What is wrong.
    pub why: String,
}
