//! Splits: children of a node's communicator, which learn of departures from the parent.

use super::super::hub::NodeKey;
use super::super::message::Left;
use super::super::node::Node;
use super::{Deferred, Endpoint, Net};
use crate::Rank;

/// A child of a node, with its members' ranks in the parent.
pub(super) struct ChildOf {
    pub(super) node: NodeKey,
    seq: u64,
    members: Vec<u32>,
}

impl Endpoint {
    pub(super) fn start_children(&mut self, key: NodeKey) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let mut started = Vec::new();
        for spec in std::mem::take(&mut node.pending_children) {
            let (child, seq, members) = (spec.key, spec.seq, spec.members.clone());
            let Some(new) = node.child(spec) else { continue };
            let gone: Vec<Left> = node.departed_before(seq).cloned().collect();
            started.push((new, gone, ChildOf { node: child, seq, members }));
        }
        for (mut new, gone, of) in started {
            new.open(&mut self.net);
            for left in gone {
                notify_child(&mut self.net, &mut new, &of, &left);
            }
            self.nodes.insert(of.node, new);
            let (deferred, child) = (&mut self.net.deferred, of.node);
            deferred.push_back(Deferred::Table(child));
            self.children.entry(key).or_default().push(of);
        }
        if let Some(node) = self.nodes.get_mut(&key) {
            for process in &self.dead_processes {
                node.handle_process_death(&mut self.net, *process, "its process is gone");
            }
        }
    }

    pub(super) fn handle_parent_departure(&mut self, key: NodeKey, left: &Left) {
        let Some(children) = self.children.get_mut(&key) else { return };
        children.retain(|of| self.nodes.contains_key(&of.node));
        for of in children.iter().filter(|of| left.misses_child(of.seq)) {
            if let Some(node) = self.nodes.get_mut(&of.node) {
                notify_child(&mut self.net, node, of, left);
            }
        }
    }
}

/// Reports to a child that a rank left the parent before joining it.
fn notify_child(net: &mut Net, child: &mut Node, of: &ChildOf, left: &Left) {
    if let Some(rank) = of.members.iter().position(|member| *member == left.rank) {
        let left = Left { rank: Rank::at(rank).0, gone: true, ..left.clone() };
        child.handle_departure(net, left, None);
    }
}
