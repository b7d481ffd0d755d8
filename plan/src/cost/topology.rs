//! The machine: links, launches, and NCCL's overheads.

use super::kernels::KernelTimes;
use crate::ir::CollectiveKind;

/// A link between two ranks, as alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Seconds until the first byte arrives at the other end.
    pub alpha: f64,
    /// Seconds per byte and direction.
    pub beta: f64,
}

/// A machine of identical nodes. Every field can be set; start from [`h200_node`](Self::h200_node)
/// or [`free`](Self::free).
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Ranks per node, at least 1; the plan's ranks fill one node after another.
    pub ranks_per_node: u32,
    /// The link between two ranks of a node.
    pub within: Link,
    /// The link of each rank to other nodes: one network card per GPU.
    pub between: Link,
    /// Seconds to launch a call, whatever it contains.
    pub launch: f64,
    /// Seconds that each operation adds to its call, however small: the cost per member of a group.
    pub member: f64,
    /// Seconds of one hop of a collective within a node.
    pub hop_within: f64,
    /// Seconds of one hop of a collective between nodes.
    pub hop_between: f64,
    /// The share of a link's bandwidth that an all-reduce, a broadcast and a reduce achieve.
    pub all_reduce_share: f64,
    /// The same for an all-gather.
    pub all_gather_share: f64,
    /// The same for a reduce-scatter.
    pub reduce_scatter_share: f64,
    /// The same for all-to-all, gather and scatter.
    pub all_to_all_share: f64,
    /// Seconds of a put in addition to its launch and its bytes.
    pub put: f64,
    /// Seconds of a signal in addition to its launch.
    pub signal: f64,
    /// Seconds of a wait in addition to its launch, once its signals have arrived.
    pub wait: f64,
    /// Seconds that a captured graph adds to a wait.
    pub captured_wait: f64,
    /// Seconds for each byte that local work reads or writes.
    pub memory: f64,
    /// Times of this library's own kernels.
    pub kernels: KernelTimes,
}

impl Topology {
    /// A machine on which nothing takes any time, as a base for settings: one node of any number of
    /// ranks.
    pub const fn free() -> Self {
        let link = Link { alpha: 0.0, beta: 0.0 };
        Self {
            ranks_per_node: u32::MAX,
            within: link,
            between: link,
            launch: 0.0,
            member: 0.0,
            hop_within: 0.0,
            hop_between: 0.0,
            all_reduce_share: 1.0,
            all_gather_share: 1.0,
            reduce_scatter_share: 1.0,
            all_to_all_share: 1.0,
            put: 0.0,
            signal: 0.0,
            wait: 0.0,
            captured_wait: 0.0,
            memory: 0.0,
            kernels: KernelTimes::FREE,
        }
    }

    /// Nodes of 8 H200 with NVLink between all pairs, NCCL 2.32.3, memory from `cudaMalloc`.
    ///
    /// Measured on one node with consecutive calls:
    ///
    /// * `within.beta`: 359.5 GB/s of bus bandwidth, which an all-reduce and send with receive
    ///   reach at 1 GiB. The shares are the others' bus bandwidth divided by it: all-gather 346.5,
    ///   reduce-scatter 346.5, all-to-all 330 GB/s.
    /// * `launch`: 5.8 us, the host's time for a grouped send and receive, which bounds the rate of
    ///   consecutive calls.
    /// * `member`: 0.2625 us, from 64 all-reduces of 1 KiB: 1005 us one by one and 32.6 us in one
    ///   group.
    /// * `within.alpha`: 1.772 us, so that a send and a receive in one group take the measured 8.1
    ///   us.
    /// * `hop_within`: 1.606 us, so that an all-reduce of 1 KiB, in 6 hops, takes 1005 us / 64.
    /// * `put`, `signal`, `wait`: so that put and wait take the measured 17.5 us, signal and wait
    ///   13.5 us. How the time is divided between signal and wait was not measured: half and half.
    /// * `captured_wait`: 23.7 us, so that a captured put and wait take the measured 41.2 us.
    ///
    /// * `kernels`: see [`KernelTimes`].
    ///
    /// Not measured: the memory, of which `memory` is the nominal 4.8 TB/s; and the network.
    /// `between` is a nominal 400 Gb/s per GPU and 5 us; `hop_between` is the same 5 us.
    pub const fn h200_node() -> Self {
        Self {
            ranks_per_node: 8,
            within: Link { alpha: 1.772e-6, beta: 1.0 / 359.5e9 },
            between: Link { alpha: 5.0e-6, beta: 1.0 / 50.0e9 },
            launch: 5.8e-6,
            member: 0.2625e-6,
            hop_within: 1.606e-6,
            hop_between: 5.0e-6,
            all_reduce_share: 1.0,
            all_gather_share: 346.5 / 359.5,
            reduce_scatter_share: 346.5 / 359.5,
            all_to_all_share: 330.0 / 359.5,
            put: 4.685e-6,
            signal: 0.6875e-6,
            wait: 0.6875e-6,
            captured_wait: 23.7e-6,
            memory: 1.0 / 4.8e12,
            kernels: KernelTimes::H200,
        }
    }

    /// The node of a rank.
    pub(super) fn node(&self, rank: u32) -> u32 {
        rank / self.ranks_per_node.max(1)
    }

    /// The link between two ranks; `None` between a rank and itself.
    pub(super) fn link(&self, a: u32, b: u32) -> Option<&Link> {
        if a == b {
            None
        } else if self.node(a) == self.node(b) {
            Some(&self.within)
        } else {
            Some(&self.between)
        }
    }

    /// The share of a link's bandwidth that a collective achieves.
    pub(super) fn share(&self, kind: &CollectiveKind<u32>) -> f64 {
        match kind.spec().wholes() {
            _ if kind.name().is_messages() => self.all_to_all_share,
            (false, false) => self.all_reduce_share,
            (false, true) => self.all_gather_share,
            (true, _) => self.reduce_scatter_share,
        }
    }
}
