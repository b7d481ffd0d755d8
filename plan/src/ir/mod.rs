//! A plan as data: its declarations and statements, with their locations. Nothing here is checked.

mod claim;
mod collective;
mod expr;
mod location;
mod memory;
mod operands;
mod operator;
mod ranks;
pub(crate) mod shape;
mod show;
mod step;
mod subexpr;
mod validate;
mod words;
mod work;

pub use claim::{Around, Claim, Each, Source};
pub use collective::{CollectiveKind, CollectiveName, Side, Spec};
pub use expr::{Choice, Comparison, Condition, Expr};
pub use location::Location;
pub use memory::{Array, Buffer, Region, Role};
pub(crate) use operands::Operand;
pub use operator::Operator;
pub(crate) use operator::arithmetic;
pub(crate) use ranks::powers;
pub use ranks::{Axis, Communicator, Param, Promise, Values};
pub use shape::{MOST_NESTING, MOST_OF_ONE};
pub use show::Shown;
pub(crate) use show::show_reduced;
pub(crate) use step::Communication;
pub use step::{
    Assign, Awaited, Cases, Collective, Compute, Equation, Hop, Loop, Peer, Place, Put, Receive,
    Reduction, Send, Signal, Step, StepKind, Transfer, Wait, When,
};
pub use subexpr::Subexpr;
pub(crate) use validate::MOST_PROBLEMS;
pub use validate::{
    MOST_ASSIGNED, MOST_DECLARED, MOST_NAME, MOST_PARTS, MOST_REDUCED, MOST_STEPS, MOST_VALUES,
};
pub(crate) use work::LocalWork;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::element::{ElementKind, ElementType};
use crate::releases::NEWEST;

/// A communication schedule for all ranks.
///
/// ```
/// use typed_nccl_plan::build::PlanBuilder;
/// use typed_nccl_plan::ir::Plan;
///
/// let mut built = PlanBuilder::new("nothing");
/// built.ranks(1..);
/// let checked = built.check()?;
/// let plan: &Plan = checked.plan();
/// assert_eq!(plan.name, "nothing");
/// # Ok::<(), typed_nccl_plan::build::Refused>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// The files that [`Location::file`] refers to.
    #[serde(default)]
    pub files: Vec<String>,
    /// The dimensions of its ranks; at least one.
    pub axes: Vec<Axis>,
    /// The parameters that binding supplies.
    #[serde(default)]
    pub params: Vec<Param>,
    /// Lists among the parameters that each run passes anew: binding supplies the most of each
    /// number. They are lengths of messages alone, see [`Region::count`].
    #[serde(default)]
    pub counts: Vec<ParamId>,
    /// Conditions on extents and parameters that hold whenever it is bound.
    #[serde(default)]
    pub promises: Vec<Promise>,
    /// Its communicators.
    pub communicators: Vec<Communicator>,
    /// Its memory.
    pub buffers: Vec<Buffer>,
    /// Its signals.
    #[serde(default)]
    pub signals: Vec<Named>,
    /// Its streams.
    pub streams: Vec<Named>,
    /// The names of loop counters and array indices.
    #[serde(default)]
    pub counters: Vec<Named>,
    /// Its statements.
    pub steps: Vec<Step>,
    /// How it is launched.
    #[serde(default)]
    pub launch: Launch,
    /// Whether this library's own kernels may replace slower NCCL operations.
    #[serde(default = "yes")]
    pub kernels: bool,
    /// Whether it runs repeatedly; then one run is also checked against the next.
    #[serde(default = "yes")]
    pub replayed: bool,
    /// The oldest NCCL that it supports.
    #[serde(default)]
    pub target: Version,
    /// What orders operations of several communicators on one device.
    #[serde(default)]
    pub order: Order,
    /// Regions that the plan claims to fill entirely, each element once.
    #[serde(default)]
    pub covers: Vec<Coverage>,
    /// Results that the plan claims to compute.
    #[serde(default)]
    pub computes: Vec<Postcondition>,
    /// What the plan claims that memory holds at the end.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Sizes to check in addition to the checker's choice.
    #[serde(default)]
    pub checks: Vec<Asked>,
}

/// Sizes that a plan asks to be checked: each combination of these values, with the smallest of the
/// others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Extents.
    #[serde(default)]
    pub extents: Vec<(AxisId, Vec<i64>)>,
    /// Parameters.
    #[serde(default)]
    pub params: Vec<(ParamId, Vec<i64>)>,
    /// Where it is written.
    #[serde(default)]
    pub at: Location,
}

/// A signal, a stream or a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    #[serde(default)]
    pub at: Location,
}

/// How a plan is launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// Call by call.
    #[default]
    Eager,
    /// Captured as a whole into one CUDA graph, and replayed.
    Captured,
}

/// What orders operations of several communicators that share a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The plan, through streams and `after`; checked.
    #[default]
    Declared,
    /// NCCL, in the order of the host's calls: `NCCL_LAUNCH_ORDER_IMPLICIT=1` (2.26 and later).
    Implicit,
}

/// A version of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(pub u16, pub u16, pub u16);

/// A claim that transfers and puts fill a region, each element once, on every rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// The region, which may depend on the rank.
    pub region: Region,
    /// Where it is written.
    #[serde(default)]
    pub at: Location,
}

/// A claim about the result: the plan leaves in `recv` what a collective would, given the content
/// of `send` at the start.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postcondition {
    /// The equivalent collective, over all ranks of the plan.
    pub kind: CollectiveKind,
    /// The collective's send region.
    pub send: Region,
    /// The collective's receive region.
    pub recv: Region,
    /// Where it is written.
    #[serde(default)]
    pub at: Location,
}

impl Plan {
    /// A plan of that name without ranks, memory and statements. It is launched call by call, runs
    /// repeatedly, may use kernels, and is for the newest NCCL.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            files: Vec::new(),
            axes: Vec::new(),
            params: Vec::new(),
            counts: Vec::new(),
            promises: Vec::new(),
            communicators: Vec::new(),
            buffers: Vec::new(),
            signals: Vec::new(),
            streams: Vec::new(),
            counters: Vec::new(),
            steps: Vec::new(),
            launch: Launch::default(),
            kernels: true,
            replayed: true,
            target: Version::default(),
            order: Order::default(),
            covers: Vec::new(),
            computes: Vec::new(),
            claims: Vec::new(),
            checks: Vec::new(),
        }
    }
}

macro_rules! id {
    ($($(#[$doc:meta])+ $name:ident;)+) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The index in the plan's list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

id! {
    /// An axis, by its index in [`Plan::axes`].
    AxisId;
    /// A parameter, by its index in [`Plan::params`].
    ParamId;
    /// A communicator, by its index in [`Plan::communicators`].
    CommunicatorId;
    /// A buffer, or an array of buffers, by its index in [`Plan::buffers`].
    BufferId;
    /// A signal, by its index in [`Plan::signals`].
    SignalId;
    /// A stream, by its index in [`Plan::streams`].
    StreamId;
    /// A counter, by its index in [`Plan::counters`].
    LoopId;
}

fn yes() -> bool {
    true
}

impl Default for Version {
    fn default() -> Self {
        NEWEST
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}
