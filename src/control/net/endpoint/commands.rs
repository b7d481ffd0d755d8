//! Commands of the process's ranks.

use std::time::Instant;

use super::super::conns::Action;
use super::super::hub::{Command, NodeKey};
use super::super::ident::{self, CommId};
use super::super::job::Job;
use super::super::message::{Leaves, Message};
use super::super::node::Node;
use super::super::proof::Secret;
use super::super::rendezvous::Rendezvous;
use super::{Acceptor, Endpoint, Tombstone};

impl Endpoint {
    pub(in super::super) fn handle_command(&mut self, command: Command, now: Instant) {
        self.begin_event(now);
        self.run_command(command);
        self.run_deferred();
    }

    fn run_command(&mut self, command: Command) {
        let net = &mut self.net;
        match command {
            Command::Open(spec) => {
                let (key, mut node) = (spec.key, Node::new(*spec));
                node.open(net);
                node.set_accept_trouble(&self.accept_trouble);
                self.nodes.insert(key, node);
            }
            Command::Child { parent, child } => {
                let Some(node) = self.nodes.get_mut(&parent) else { return };
                node.record_split(child.seq);
                node.pending_children.push(*child);
                if node.table.is_some() {
                    self.start_children(parent);
                }
            }
            Command::Found { node, at, id, secret } => {
                self.with_node(node, |node, net| node.handle_rendezvous(net, at, id, secret))
            }
            Command::Meet { id, secret, acceptor, owner, job } => {
                self.open_rendezvous(id, secret, acceptor, (owner, job))
            }
            Command::Post { node, seq, contribution } => {
                self.with_node(node, |node, net| node.post(net, seq, contribution))
            }
            Command::Leave { node, why, how } => {
                self.with_node(node, |node, net| node.leave(net, &why, how))
            }
            Command::Tell { node, to, channel, bytes } => {
                let to = to.map(|to| to.0);
                self.with_node(node, |node, net| node.tell(net, to, channel, bytes));
            }
            Command::Listen { node, channel, listener } => {
                self.with_node(node, |node, net| node.listen(net, channel, &listener));
            }
            #[cfg(any(test, feature = "models"))]
            Command::Id { node, to } => {
                if let Some(id) = self.nodes.get(&node).and_then(|node| node.id) {
                    // The caller may have stopped waiting.
                    let _ = to.send(id);
                }
            }
            Command::Close(key) => self.close_node(key, false),
            #[cfg(any(test, feature = "models"))]
            Command::Kill(key) => self.close_node(key, true),
            #[cfg(test)]
            Command::AtOnce(commands) => commands.into_iter().for_each(|one| self.run_command(one)),
            Command::End(done) => {
                let why = "its process ended without `finish`";
                let open = |key: &NodeKey| !self.closing.contains(key);
                // Some may be connecting.
                for key in self.nodes.keys().copied().filter(open).collect::<Vec<_>>() {
                    self.with_node(key, |node, net| node.leave(net, why, Leaves::Unready));
                    self.close_node(key, false);
                }
                // A failed rendezvous lingers, to tell latecomers.
                self.rendezvous.values_mut().for_each(Rendezvous::end);
                self.close_finished_rendezvous();
                self.shutdown = Some(done);
            }
        }
    }

    fn open_rendezvous(
        &mut self,
        id: CommId,
        secret: Secret,
        acceptor: Option<(usize, u16)>,
        (owner, job): (Option<NodeKey>, Option<Job>),
    ) {
        if let Some((acceptor, port)) = acceptor {
            self.acceptors.insert(acceptor, Acceptor { port, meet: Some(id) });
        }
        match ident::random() {
            Ok(comm) => {
                self.rendezvous.insert(id, Rendezvous::new(id, CommId(comm), secret, (owner, job)));
            }
            Err(error) => log::error!("cannot open a rendezvous: {error}"),
        }
    }

    fn close_node(&mut self, key: NodeKey, kill: bool) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        match kill {
            true => node.kill(&mut self.net),
            false if !self.closing.insert(key) => return,
            false => node.close(&mut self.net),
        }
        self.children.remove(&key);
        for meet in self.rendezvous.values_mut().filter(|meet| meet.owner == Some(key)) {
            if !kill {
                meet.record_departures(&mut self.net.conns, node.departures());
            }
            meet.end();
        }
        if kill {
            self.nodes.remove(&key);
            self.closing.remove(&key);
        }
        self.close_finished_rendezvous();
    }

    /// Ends the nodes that were closed, and that nobody needs any more.
    pub(super) fn end_closed(&mut self) {
        let (now, nodes) = (self.net.now(), &self.nodes);
        let is_over = |key: &NodeKey| nodes.get(key).is_none_or(|node| node.is_over(now));
        let over: Vec<NodeKey> = self.closing.extract_if(.., is_over).collect();
        for key in over {
            if let Some(mut node) = self.nodes.remove(&key) {
                node.end(&mut self.net);
            }
        }
    }

    pub(super) fn close_finished_rendezvous(&mut self) {
        let is_over = |meet: &&Rendezvous| meet.is_finished(self.net.now());
        let over: Vec<CommId> =
            self.rendezvous.values().filter(is_over).map(|meet| meet.id).collect();
        for id in over {
            let Some(meet) = self.rendezvous.remove(&id) else { continue };
            for key in meet.guests() {
                self.net.conns.send(key, &Message::Bye { all_finished: true });
                self.net.conns.end(key);
            }
            self.net.ended.add((id, u32::MAX), Tombstone { secret: meet.secret, lost: Vec::new() });
            let closes = |_: &usize, acceptor: &mut Acceptor| acceptor.meet == Some(id);
            for (acceptor, _) in self.acceptors.extract_if(.., closes) {
                self.net.conns.push_action(Action::CloseAcceptor(acceptor));
            }
        }
    }
}
