//! Calls as data: what reports compare and print.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use typed_nccl_plan::ir::CollectiveName;

use super::Site;
use crate::{DType, Rank, ReductionName};

/// The operation of a call.
///
/// See the example of [`Mismatch`](super::Mismatch).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// One of the collectives.
    Collective(CollectiveName),
    /// `send`
    SendTo,
    /// `recv`
    RecvFrom,
    /// `put_signal`
    PutSignal,
    /// `signal`
    Signal,
    /// `wait_signal`
    WaitSignal,
}

impl Operation {
    /// The method's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collective(name) => name.name(),
            Self::SendTo => "send",
            Self::RecvFrom => "recv",
            Self::PutSignal => "put_signal",
            Self::Signal => "signal",
            Self::WaitSignal => "wait_signal",
        }
    }
}

impl From<CollectiveName> for Operation {
    #[inline]
    fn from(name: CollectiveName) -> Self {
        Self::Collective(name)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One rank's call, with its arguments.
///
/// Part of [`Mismatch`](super::Mismatch) and of [`Refused`](super::Refused):
///
/// ```
/// use typed_nccl::error::{Call, Mismatch};
///
/// /// Each rank's line.
/// fn lines(differ: &Mismatch) -> Vec<String> {
///     let line = |call: &Call| format!("{}: {} elements", call.site, call.count);
///     differ.calls.iter().map(|(rank, call)| format!("rank {rank} at {}", line(call))).collect()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// The element type.
    pub dtype: DType,
    /// How many elements, as NCCL counts them for this operation: each rank's part for
    /// `all_gather`, `reduce_scatter`, `all_to_all`, `gather` and `scatter`, the whole otherwise.
    pub count: usize,
    /// The reduction, if there is one.
    pub reduction: Option<ReductionName>,
    /// The root, if there is one.
    pub root: Option<Rank>,
    /// The other rank, if there is one.
    pub peer: Option<Rank>,
    /// Where the program made the call.
    pub site: Site,
}

impl Call {
    pub(crate) fn new(
        operation: impl Into<Operation>,
        dtype: DType,
        count: usize,
        site: Site,
    ) -> Self {
        let operation = operation.into();
        Self { operation, dtype, count, reduction: None, root: None, peer: None, site }
    }

    /// Whether two ranks' calls are one collective. NCCL does not check this.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.operation == other.operation && self.signature() == other.signature()
    }

    /// The properties in which matching calls agree: of a collective, or of a send and its receive.
    pub(crate) fn signature(&self) -> Signature {
        let &Self { operation, dtype, count, reduction, root, .. } = self;
        let collective =
            if let Operation::Collective(name) = operation { Some(name) } else { None };
        Signature { collective, dtype, count, reduction, root: root.map(Rank::index) }
    }
}

/// See [`Call::signature`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Signature {
    collective: Option<CollectiveName>,
    dtype: DType,
    count: usize,
    reduction: Option<ReductionName>,
    root: Option<usize>,
}

/// `all_reduce of 1024 f32, Sum`, `8 f32`
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { collective, dtype, count, reduction, root } = self;
        collective.map_or(Ok(()), |name| write!(f, "{name} of "))?;
        write!(f, "{count} {dtype}")?;
        reduction.map_or(Ok(()), |reduction| write!(f, ", {reduction}"))?;
        root.map_or(Ok(()), |root| write!(f, ", root {root}"))
    }
}

/// `all_reduce of 1024 f32, Sum, at trainer.rs:41`, `send of 8 f32 to 3, at pipe.rs:7`,
/// `all_to_all_v (send of 8 f32 to 3), at moe.rs:5`
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.site.method();
        method.map_or(Ok(()), |method| write!(f, "{method} ("))?;
        match self.operation {
            Operation::Signal | Operation::WaitSignal => write!(f, "{}", self.operation)?,
            Operation::Collective(_)
            | Operation::SendTo
            | Operation::RecvFrom
            | Operation::PutSignal => {
                write!(f, "{} of {} {}", self.operation, self.count, self.dtype)?;
            }
        }
        match (self.operation, self.peer) {
            (Operation::RecvFrom, Some(peer)) => write!(f, " from {peer}")?,
            (Operation::WaitSignal, Some(peer)) => write!(f, " for {} from {peer}", self.count)?,
            (Operation::SendTo | Operation::PutSignal | Operation::Signal, Some(peer)) => {
                write!(f, " to {peer}")?;
            }
            (Operation::Collective(_), Some(_)) | (_, None) => {}
        }
        if let Some(reduction) = self.reduction {
            write!(f, ", {reduction}")?;
        }
        if let Some(root) = self.root {
            write!(f, ", root {root}")?;
        }
        let end = if method.is_some() { ")" } else { "" };
        write!(f, "{end}, at {}", self.site)
    }
}
