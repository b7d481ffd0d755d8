//! The time of a group: one launch, the latency of its farthest operation, and its bytes.

use std::collections::HashMap;

use super::collectives::{self, Shape};
use super::kernels::KernelTimes;
use super::topology::Topology;
use crate::draw::Links;
use crate::ir::{CommunicatorId, Launch, Plan};
use crate::lower::{Elements, Leg, Operation};

/// Seconds for the bytes that leave and reach a rank by messages and puts, for each class of links.
#[derive(Default)]
struct Traffic {
    out: [f64; 2],
    into: [f64; 2],
}

/// Computes times of groups from the placement of communicators on nodes.
pub(crate) struct Groups<'a> {
    plan: &'a Plan,
    topology: &'a Topology,
    links: &'a Links<'a>,
    shapes: HashMap<(CommunicatorId, u32), Shape>,
}

impl<'a> Groups<'a> {
    pub(crate) fn new(plan: &'a Plan, topology: &'a Topology, links: &'a Links<'a>) -> Self {
        Self { plan, topology, links, shapes: HashMap::new() }
    }

    /// Seconds of a rank's group, once the other ranks have arrived.
    pub(crate) fn takes(&mut self, rank: u32, operations: &[Operation]) -> f64 {
        let Self { plan, topology, links, shapes } = self;
        let (mut latency, mut collective) = (0.0_f64, 0.0_f64);
        let mut traffic = Traffic::default();
        let size = |part: &Elements| bytes(plan, part);
        let class = |peer: u32| usize::from(topology.node(rank) != topology.node(peer));
        let alpha = |peer: u32| topology.link(rank, peer).map_or(0.0, |link| link.alpha);
        let takes =
            |peer, part| topology.link(rank, peer).map_or(0.0, |link| link.beta * size(part));
        for operation in operations {
            match operation {
                Operation::Collective { kind, among, send, recv, .. } => {
                    let of = |part: &Option<Elements>| part.as_ref().map_or(0.0, size);
                    let shape = shapes
                        .entry((*among, links.first(*among, rank)))
                        .or_insert_with(|| Shape::new(topology, &links.members(*among, rank)));
                    let bytes = of(send).max(of(recv));
                    let seconds = collectives::takes(topology, kind, shape, bytes);
                    latency = latency.max(seconds.latency);
                    collective += seconds.bytes;
                }
                Operation::Send { from, peer, .. } => {
                    latency = latency.max(alpha(*peer));
                    traffic.out[class(*peer)] += takes(*peer, from);
                }
                Operation::Receive { to, peer, .. } => {
                    latency = latency.max(alpha(*peer));
                    traffic.into[class(*peer)] += takes(*peer, to);
                }
                Operation::Put { from, peer, .. } => {
                    latency = latency.max(topology.put);
                    traffic.out[class(*peer)] += takes(*peer, from);
                }
                Operation::Signal { .. } => latency = latency.max(topology.signal),
                Operation::Wait { .. } => {
                    let captured =
                        if plan.launch == Launch::Captured { topology.captured_wait } else { 0.0 };
                    latency = latency.max(topology.wait + captured);
                }
            }
        }
        // Links carry both directions at once, and the two classes use separate links.
        let all = traffic.out.into_iter().chain(traffic.into);
        let messages = all.fold(0.0_f64, f64::max);
        let members = topology.member * operations.len() as f64;
        topology.launch + members + latency + collective + messages
    }
}

impl Groups<'_> {
    /// Seconds of a rank's reduction of these regions, each as long as `to`, or of a copy. What
    /// comes from other ranks crosses links, beside the work on memory.
    pub(crate) fn assigns(&self, rank: u32, to: &Elements, of: &[Elements]) -> f64 {
        let (topology, bytes) = (self.topology, bytes(self.plan, to));
        let peers = of.iter().filter_map(|of| topology.link(rank, of.rank?));
        let (mut latency, mut crossing) = (0.0_f64, 0.0);
        for link in peers {
            latency = latency.max(link.alpha);
            crossing += link.beta * bytes;
        }
        let moved = topology.memory * bytes * (of.len() + 1) as f64;
        topology.launch + latency + moved.max(crossing)
    }

    pub(crate) fn kernels(&self) -> &KernelTimes {
        &self.topology.kernels
    }

    /// Seconds of one of this library's own kernels; `None` if kernels do not support the
    /// operations.
    pub(crate) fn kernel(&self, rank: u32, operations: &[Operation], legs: &[Leg]) -> Option<f64> {
        match operations.first()? {
            Operation::Collective { kind, among, .. } => {
                let sent = operations.iter().filter_map(|operation| match operation {
                    Operation::Collective { send: Some(send), .. } => Some(bytes(self.plan, send)),
                    _ => None,
                });
                let ranks = self.links.members(*among, rank).len();
                self.kernels().collectives(kind, ranks, operations.len(), sent.sum())
            }
            Operation::Send { from: part, .. } | Operation::Receive { to: part, .. } => {
                let of =
                    |leg: &Leg| bytes(self.plan, &Elements { start: 0, end: leg.len, ..*part });
                self.kernels().messages(legs.len(), legs.iter().map(of).sum())
            }
            _ => None,
        }
    }
}

/// Bytes of a part; elements of a buffer that the plan lacks count as four.
fn bytes(plan: &Plan, part: &Elements) -> f64 {
    let element = plan.buffers.get(part.buffer as usize).map_or(4, |buffer| buffer.element.bytes());
    part.end.saturating_sub(part.start) as f64 * element as f64
}
