//! The time of a collective: a latency, which collectives of one group share, and a time for its
//! bytes, which adds up.
//!
//! With n ranks, S bytes on each rank on the larger of its two sides, and b seconds per byte:
//!
//! | collective | hops | bytes |
//! |---|---|---|
//! | all-reduce, ring | 2 (n - 1) | 2 (n - 1) / n S b |
//! | all-reduce, tree | 2 log2 n | 2 S b |
//! | broadcast, reduce: a pipelined ring | n - 1 | S b |
//! | all-gather, reduce-scatter: ring | n - 1 | (n - 1) / n S b |
//! | all-to-all, gather, scatter: messages to all at once | 1 | (n - 1) / n S b |
//!
//! An all-reduce takes the better of both. Hops are within a node, except one from each node to the
//! next. Between nodes, the rings of a communicator use the network cards of all its ranks on a
//! node. So their b is the larger of that of the link within a node, and that of the network
//! divided by the ranks per node. In an all-to-all, each rank's messages to other nodes use its own
//! card.

use super::topology::Topology;
use crate::ir::CollectiveKind;

/// Seconds of a collective's latency, and of its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seconds {
    pub(super) latency: f64,
    pub(super) bytes: f64,
}

/// The time of a collective with this placement of ranks and this many bytes on the larger side.
pub(super) fn takes(
    topology: &Topology,
    kind: &CollectiveKind<u32>,
    shape: &Shape,
    bytes: f64,
) -> Seconds {
    if shape.ranks < 2.0 {
        return Seconds { latency: 0.0, bytes: 0.0 };
    }
    let share = topology.share(kind);
    let share = if share > 0.0 { share } else { 1.0 };
    let (ring, all) = (shape.ring(topology), shape.beta(topology) / share * bytes);
    let but_own = (shape.ranks - 1.0) / shape.ranks;
    let spec = kind.spec();
    match spec.wholes() {
        _ if spec.is_messages => {
            let each = bytes / shape.ranks / share;
            let (near, far) = (shape.on_node - 1.0, shape.ranks - shape.on_node);
            let links = (near * topology.within.beta).max(far * topology.between.beta);
            let hop = if shape.nodes > 1.0 { topology.hop_between } else { topology.hop_within };
            Seconds { latency: hop, bytes: links * each }
        }
        (false, false) if spec.has_root() => Seconds { latency: ring, bytes: all },
        (false, false) => {
            let ring = Seconds { latency: 2.0 * ring, bytes: 2.0 * but_own * all };
            let tree = Seconds { latency: 2.0 * shape.tree(topology), bytes: 2.0 * all };
            if ring.latency + ring.bytes < tree.latency + tree.bytes { ring } else { tree }
        }
        _ => Seconds { latency: ring, bytes: but_own * all },
    }
}

/// The placement of a communicator's ranks on nodes.
pub(super) struct Shape {
    ranks: f64,
    nodes: f64,
    /// The most ranks on one node.
    on_node: f64,
}

impl Shape {
    pub(super) fn new(topology: &Topology, members: &[u32]) -> Self {
        let mut nodes: Vec<u32> = members.iter().map(|rank| topology.node(*rank)).collect();
        nodes.sort_unstable();
        let on_node = nodes.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(1);
        let many = nodes.chunk_by(|a, b| a == b).count();
        Self { ranks: members.len() as f64, nodes: many as f64, on_node: on_node as f64 }
    }

    /// Once around, from the first rank to the last.
    fn ring(&self, topology: &Topology) -> f64 {
        let between = self.nodes - 1.0;
        (self.ranks - 1.0 - between) * topology.hop_within + between * topology.hop_between
    }

    /// From the root of a tree to its leaves.
    fn tree(&self, topology: &Topology) -> f64 {
        self.on_node.log2().ceil() * topology.hop_within
            + self.nodes.log2().ceil() * topology.hop_between
    }

    fn beta(&self, topology: &Topology) -> f64 {
        // With one rank per node, no link within a node is used.
        let within = if self.on_node > 1.0 { topology.within.beta } else { 0.0 };
        let network = if self.nodes > 1.0 { topology.between.beta / self.on_node } else { 0.0 };
        within.max(network)
    }
}
