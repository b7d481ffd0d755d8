//! What the process's ranks ask for.

use std::time::Instant;

use super::super::conns::Action;
use super::super::hub::{Command, NodeKey};
use super::super::ident::{self, CommId};
use super::super::job::Job;
use super::super::message::{Leaves, Message};
use super::super::node::Node;
use super::super::proof::Secret;
use super::super::rendezvous::Rendezvous;
use super::{Acceptor, Endpoint, Over};

impl Endpoint {
    /// One of the process's ranks asks for something.
    pub(in super::super) fn command(&mut self, command: Command, now: Instant) {
        self.at_time(now);
        self.obey(command);
        self.settle();
    }

    fn obey(&mut self, command: Command) {
        let net = &mut self.net;
        match command {
            Command::Open(spec) => {
                let (key, mut node) = (spec.key, Node::new(*spec));
                node.open(net);
                node.hindered(&self.hindrance);
                self.nodes.insert(key, node);
            }
            Command::Child { parent, child } => {
                let Some(node) = self.nodes.get_mut(&parent) else { return };
                node.splits(child.seq);
                node.unborn.push(*child);
                if node.table.is_some() {
                    self.has_table(parent);
                }
            }
            Command::Found { node, at, id, secret } => {
                self.at(node, |node, net| node.found(net, at, id, secret))
            }
            Command::Meet { id, secret, acceptor, owner, job } => {
                self.meet(id, secret, acceptor, (owner, job))
            }
            Command::Post { node, seq, said } => {
                self.at(node, |node, net| node.post(net, seq, said))
            }
            Command::Leave { node, why, how } => {
                self.at(node, |node, net| node.leave(net, &why, how))
            }
            Command::Tell { node, to, channel, bytes } => {
                let to = to.map(|to| to.0);
                self.at(node, |node, net| node.pass_on(net, node.rank, to, channel, &bytes, None));
            }
            Command::Listen { node, channel, listener } => {
                self.at(node, |node, net| node.listen(net, channel, &listener));
            }
            #[cfg(any(test, feature = "models"))]
            Command::Id { node, to } => {
                if let Some(id) = self.nodes.get(&node).and_then(|node| node.id) {
                    // Whoever asked may not wait any more.
                    let _ = to.send(id);
                }
            }
            Command::Close(key) => self.close(key, false),
            #[cfg(any(test, feature = "models"))]
            Command::Kill(key) => self.close(key, true),
            #[cfg(test)]
            Command::AtOnce(commands) => commands.into_iter().for_each(|one| self.obey(one)),
            Command::End(done) => {
                let why = "its process ended without `finish`";
                for (key, mut node) in std::mem::take(&mut self.nodes) {
                    node.leave(net, why, Leaves::Gone);
                    let owned = self.meets.values_mut().filter(|meet| meet.owner == Some(key));
                    owned.for_each(|meet| meet.pass_on(&mut net.conns, node.lefts()));
                    node.close(net);
                }
                // One that failed tells those who come late.
                let now = net.now();
                self.meets.values_mut().for_each(|meet| meet.end(now));
                self.end_meets();
                self.end = Some(done);
            }
        }
    }

    fn meet(
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
                self.meets.insert(id, Rendezvous::new(id, CommId(comm), secret, (owner, job)));
            }
            Err(error) => log::error!("the ranks cannot meet: {error}"),
        }
    }

    fn close(&mut self, key: NodeKey, kill: bool) {
        let Some(mut node) = self.nodes.remove(&key) else { return };
        match kill {
            true => node.kill(&mut self.net),
            false => node.close(&mut self.net),
        }
        self.children.remove(&key);
        for meet in self.meets.values_mut().filter(|meet| meet.owner == Some(key)) {
            if !kill {
                meet.pass_on(&mut self.net.conns, node.lefts());
            }
            meet.end(self.net.now());
        }
        self.end_meets();
    }

    pub(super) fn end_meets(&mut self) {
        let is_over = |meet: &&Rendezvous| meet.is_over(self.net.now());
        let over: Vec<CommId> = self.meets.values().filter(is_over).map(|meet| meet.id).collect();
        for id in over {
            let Some(meet) = self.meets.remove(&id) else { continue };
            for key in meet.guests() {
                self.net.conns.send(key, &Message::Bye);
                self.net.conns.end(key);
            }
            self.net.ended.add((id, u32::MAX), Over { secret: meet.secret, lost: Vec::new() });
            let closes = |_: &usize, acceptor: &mut Acceptor| acceptor.meet == Some(id);
            for (acceptor, _) in self.acceptors.extract_if(.., closes) {
                self.net.conns.act(Action::CloseDoor(acceptor));
            }
        }
    }
}
