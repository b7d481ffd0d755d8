//! Options with a fixed set of choices.

use super::settings::{Setting, Value};

/// How a communicator's operations mix with CUDA graphs. Capturing and launching cost less with
/// fewer ways to mix; breaking the promise made here is undefined. Each rank may choose its own.
///
/// NCCL: `graphUsageMode`, 2.29, and `graphStreamOrdering`, 2.30.7.
///
/// ```
/// # use typed_nccl::{CaptureOrder, CommConfig, GraphUse};
/// let config = CommConfig::builder().graphs(GraphUse::One(CaptureOrder::Free)).build();
/// assert_eq!(config.graphs, GraphUse::One(CaptureOrder::Free));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum GraphUse {
    /// NCCL's choice: [`Mixed`](Self::Mixed), unless `NCCL_GRAPH_MIXING_SUPPORT` says otherwise.
    #[default]
    Auto,
    /// No graphs: [`capture`](crate::Communicator::capture) is refused.
    None,
    /// One graph at a time: no direct call of the communicator while it runs, and no second graph
    /// launched before it completes.
    One(CaptureOrder),
    /// Graphs and direct calls in any combination.
    Mixed,
}

/// What orders the captured operations of a communicator.
///
/// See the example of [`GraphUse`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum CaptureOrder {
    /// NCCL: they run one after the other, as do those of other communicators on the GPU.
    #[default]
    Kept,
    /// The program, by streams and dependencies: NCCL adds no streams of its own to the graph.
    /// Kernels of several communicators deadlock if they run concurrently and wait for each other's
    /// resources.
    Free,
}

/// What orders the operations of several communicators on one GPU.
///
/// ```
/// # use typed_nccl::{CommConfig, LaunchOrder};
/// let config = CommConfig::builder().launch_order(LaunchOrder::Calls).build();
/// assert_eq!(config.launch_order, LaunchOrder::Calls);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum LaunchOrder {
    /// NCCL's choice: the program, by streams, unless `NCCL_LAUNCH_ORDER_IMPLICIT` says otherwise.
    #[default]
    Auto,
    /// The program, by streams: operations that may run concurrently must have the same order on
    /// all ranks.
    Streams,
    /// NCCL, by the order of the host's calls, among communicators that all choose this. Every rank
    /// must call in the same order. NCCL: `launchOrderImplicit`, 2.31.
    Calls,
}

/// Which uses of NVLink multicast (NVLS) are allowed.
///
/// ```
/// # use typed_nccl::{CommConfig, Multicast};
/// let config = CommConfig::builder().multicast(Multicast::On).build();
/// assert_eq!(config.multicast, Multicast::On);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Multicast {
    /// NCCL's choice.
    #[default]
    Auto,
    /// All.
    On,
    /// Not as a transport, and not for registered buffers.
    WithoutTransport,
    /// Not in the kernels and copy engines of symmetric windows.
    WithoutSymmetric,
    /// None, including uses added by later releases.
    Off,
}

/// Whether windows can be targets of counted transfers (CFT).
///
/// ```
/// # use typed_nccl::{CommConfig, CountedTransfers};
/// let config = CommConfig::builder().counted_transfers(CountedTransfers::Auto).build();
/// assert_eq!(config.counted_transfers, CountedTransfers::default());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum CountedTransfers {
    /// NCCL's choice.
    #[default]
    Auto,
    /// They can. The first window fails on hardware without support.
    On,
    /// They cannot.
    Off,
    /// They can on hardware with support.
    WhereThere,
}

impl GraphUse {
    pub(super) fn settings(self) -> [Option<Setting>; 2] {
        let named = |field, value, name| {
            Some(Setting::own("CommConfig::graphs", field, Value::Named(value, name)))
        };
        let mode = |value, name| named("graphUsageMode", value, name);
        let order = |value, name| named("graphStreamOrdering", value, name);
        match self {
            Self::Auto => [None, None],
            Self::None => [mode(0, "None"), None],
            Self::One(CaptureOrder::Kept) => [mode(1, "One"), order(1, "Kept")],
            Self::One(CaptureOrder::Free) => [mode(1, "One"), order(0, "Free")],
            Self::Mixed => [mode(2, "Mixed"), None],
        }
    }
}

impl LaunchOrder {
    pub(super) fn setting(self) -> Option<Setting> {
        let value = match self {
            Self::Auto => return None,
            Self::Streams => Value::Named(0, "Streams"),
            Self::Calls => Value::Named(1, "Calls"),
        };
        Some(Setting::own("CommConfig::launch_order", "launchOrderImplicit", value))
    }
}

impl Multicast {
    pub(super) fn setting(self) -> Option<Setting> {
        let value = match self {
            Self::Auto => return None,
            Self::On => Value::Named(0, "On"),
            Self::WithoutTransport => Value::Named(1, "WithoutTransport"),
            Self::WithoutSymmetric => Value::Named(2, "WithoutSymmetric"),
            Self::Off => Value::Named(i32::MAX, "Off"),
        };
        Some(Setting::alike("CommConfig::multicast", "nvlsHostMode", value))
    }
}

impl CountedTransfers {
    pub(super) fn setting(self) -> Option<Setting> {
        let value = match self {
            Self::Auto => return None,
            Self::On => Value::Named(1, "On"),
            Self::Off => Value::Named(2, "Off"),
            Self::WhereThere => Value::Named(3, "WhereThere"),
        };
        Some(Setting::alike("CommConfig::counted_transfers", "hostCftMode", value))
    }
}
