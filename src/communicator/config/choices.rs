//! Options that choose one of several ways.

use super::settings::{Setting, Value};

/// How a communicator's operations meet CUDA graphs. Fewer ways to mix them cost less when they are
/// captured and launched; what is not promised here is undefined. Each rank chooses its own.
///
/// NCCL: `graphUsageMode`, 2.29, and `graphStreamOrdering`, 2.30.7.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum GraphUse {
    /// NCCL's choice: [`Mixed`](Self::Mixed), unless `NCCL_GRAPH_MIXING_SUPPORT` says otherwise.
    #[default]
    Auto,
    /// None is captured: [`capture`](crate::Communicator::capture) is refused.
    None,
    /// There is one graph at a time, and nothing else of the communicator beside it: no direct call while
    /// it runs, no second graph that is launched before it is over.
    One(CaptureOrder),
    /// Graphs and direct calls in any mixture.
    Mixed,
}

/// Who orders the captured operations of a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum CaptureOrder {
    /// NCCL: they run one after the other, also with those of other communicators of the GPU.
    #[default]
    Kept,
    /// The program, by streams and dependencies: NCCL adds no streams of its own to the graph. Kernels of
    /// several communicators that run at once and wait for each other's place hang.
    Free,
}

/// Who orders the operations of several communicators on one GPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum LaunchOrder {
    /// NCCL's choice: the program, by streams, unless `NCCL_LAUNCH_ORDER_IMPLICIT` says otherwise.
    #[default]
    Auto,
    /// The program, by streams: operations that may run at once come in one order on all ranks.
    Streams,
    /// NCCL, by the order of the host's calls, among communicators that all say so. Each rank calls in one
    /// order. NCCL: `launchOrderImplicit`, 2.31.
    Calls,
}

/// Which uses of NVLink's multicast there are (NVLS).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Multicast {
    /// NCCL's choice.
    #[default]
    Auto,
    /// All.
    On,
    /// None of the transport, nor of registered buffers.
    WithoutTransport,
    /// None of the kernels and copy engines of symmetric windows.
    WithoutSymmetric,
    /// None, also none that later releases have.
    Off,
}

/// Whether windows can be the targets of counted transfers (CFT).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum CountedTransfers {
    /// NCCL's choice.
    #[default]
    Auto,
    /// They can: the first window fails where the hardware has none.
    On,
    /// They cannot.
    Off,
    /// They can where the hardware has them.
    WhereThere,
}

impl GraphUse {
    pub(super) fn settings(self, put: &mut impl FnMut(Setting)) {
        let mut mode = |value, name| {
            put(Setting::own("CommConfig::graphs", "graphUsageMode", Value::Named(value, name)));
        };
        match self {
            Self::Auto => {}
            Self::None => mode(0, "None"),
            Self::One(_) => mode(1, "One"),
            Self::Mixed => mode(2, "Mixed"),
        }
        if let Self::One(order) = self {
            let (value, name) = match order {
                CaptureOrder::Kept => (1, "Kept"),
                CaptureOrder::Free => (0, "Free"),
            };
            let value = Value::Named(value, name);
            put(Setting::own("CommConfig::graphs", "graphStreamOrdering", value));
        }
    }
}

impl LaunchOrder {
    pub(super) fn settings(self, put: &mut impl FnMut(Setting)) {
        let (value, name) = match self {
            Self::Auto => return,
            Self::Streams => (0, "Streams"),
            Self::Calls => (1, "Calls"),
        };
        let value = Value::Named(value, name);
        put(Setting::own("CommConfig::launch_order", "launchOrderImplicit", value));
    }
}

impl Multicast {
    pub(super) fn settings(self, put: &mut impl FnMut(Setting)) {
        let (value, name) = match self {
            Self::Auto => return,
            Self::On => (0, "On"),
            Self::WithoutTransport => (1, "WithoutTransport"),
            Self::WithoutSymmetric => (2, "WithoutSymmetric"),
            Self::Off => (i32::MAX, "Off"),
        };
        let value = Value::Named(value, name);
        put(Setting::alike("CommConfig::multicast", "nvlsHostMode", value));
    }
}

impl CountedTransfers {
    pub(super) fn settings(self, put: &mut impl FnMut(Setting)) {
        let (value, name) = match self {
            Self::Auto => return,
            Self::On => (1, "On"),
            Self::Off => (2, "Off"),
            Self::WhereThere => (3, "WhereThere"),
        };
        let value = Value::Named(value, name);
        put(Setting::alike("CommConfig::counted_transfers", "hostCftMode", value));
    }
}
