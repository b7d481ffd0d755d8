//! A process's end of all its communicators, without sockets, clocks or threads.
//!
//! Whoever owns those says what happened and when, and does what the
//! [`Action`](super::conns::Action)s say: `io` with sockets, `nodes` with simulated ones.

mod acceptor;
mod bytes;
mod commands;
mod net;
mod splits;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::conns::{Action, Conns, Key};
use super::hub::NodeKey;
use super::ident::CommId;
use super::node::Node;
use super::rendezvous::Rendezvous;
use crate::lock::Mutex;

pub(super) use acceptor::Acceptor;
#[cfg(any(test, feature = "models"))]
pub(super) use net::Tables;
pub(super) use net::{After, Net, Over, Timer};
use splits::ChildOf;
pub(super) use times::TICK;

/// The door of the process itself.
pub(super) const OWN_DOOR: usize = 0;

/// How much input a connection that has been quiet keeps room for.
const ROOM: usize = 1 << 16;

pub(super) struct Endpoint {
    net: Net,
    acceptors: BTreeMap<usize, Acceptor>,
    most_unproven: usize,
    nodes: BTreeMap<NodeKey, Node>,
    meets: BTreeMap<CommId, Rendezvous>,
    children: BTreeMap<NodeKey, Vec<ChildOf>>,
    /// Processes that are known to be dead.
    dead: BTreeSet<u64>,
    /// What keeps this process from taking connections.
    hindrance: String,
    /// Who waits until everything is sent.
    end: Option<Sender<()>>,
    /// When all connections were looked at last.
    ticked: Instant,
    /// When the others were last told that this process lives.
    breathed: Instant,
    /// When this process was last seen to run.
    ran: Instant,
    went_on: WentOn,
}

/// When this process last went on after a stop that was longer than the others wait.
pub(super) type WentOn = Arc<Mutex<Option<Instant>>>;

impl Endpoint {
    /// Of a process that listens at this port.
    pub(super) fn new(port: u16, beat: Duration, most_unproven: usize, now: Instant) -> Self {
        let mut net = Net::new(Conns::new(beat, now));
        net.timers.set(now + TICK, Timer::Tick);
        Self {
            net,
            acceptors: [(OWN_DOOR, Acceptor { port, meet: None })].into(),
            most_unproven,
            nodes: BTreeMap::new(),
            meets: BTreeMap::new(),
            children: BTreeMap::new(),
            dead: BTreeSet::new(),
            hindrance: String::new(),
            end: None,
            ticked: now,
            breathed: now,
            ran: now,
            went_on: WentOn::default(),
        }
    }

    /// Tables are shared with other endpoints in this memory.
    #[cfg(any(test, feature = "models"))]
    pub(super) fn share(&mut self, tables: Tables) {
        self.net.tables = tables;
    }

    pub(super) fn went_on(&self) -> WentOn {
        self.went_on.clone()
    }

    /// When [`wake`](Self::wake) is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.net.timers.next()
    }

    /// What the owner of the sockets is to do next.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.net.conns.next_action()
    }

    /// The connections, for whoever sends what is on them.
    pub(super) fn conns(&mut self) -> &mut Conns {
        &mut self.net.conns
    }

    /// Time has passed.
    pub(super) fn wake(&mut self, now: Instant) {
        self.at_time(now);
        while let Some(timer) = self.net.timers.due(now) {
            self.timer(timer);
            self.settle();
        }
    }

    /// A connection that this side asked for stands.
    pub(super) fn connected(&mut self, key: Key, now: Instant) {
        self.at_time(now);
        self.net.conns.touch(key);
    }

    /// Something happens now. A process that can say that it lives does so first: on a machine with
    /// too few processors the rest can take longer than the others wait.
    fn at_time(&mut self, now: Instant) {
        self.net.conns.now = now;
        // Something happens with every tick.
        let stopped = (self.net.conns.beat * 3).max(TICK * 3);
        if now - std::mem::replace(&mut self.ran, now) >= stopped {
            *self.went_on.lock() = Some(now);
            let beat = self.net.conns.beat;
            self.nodes.values_mut().for_each(|node| node.goes_on(beat, now));
        }
        if now - self.breathed >= TICK {
            self.breathed = now;
            self.net.conns.beat();
        }
    }

    /// All that could be sent is sent.
    pub(super) fn is_written(&mut self) {
        if self.end.is_some()
            && self.meets.is_empty()
            && self.net.conns.is_known()
            && let Some(end) = self.end.take()
        {
            // Whoever asked may not wait any more.
            let _ = end.send(());
        }
    }

    /// Has a node do something, if it is still there.
    fn at(&mut self, node: NodeKey, act: impl FnOnce(&mut Node, &mut Net)) {
        if let Some(node) = self.nodes.get_mut(&node) {
            act(node, &mut self.net);
        }
    }

    fn settle(&mut self) {
        while let Some(after) = self.net.after.pop_front() {
            match after {
                After::Arrived(id) => self.let_in(id),
                After::Table(node) => self.has_table(node),
                After::Died { process, why } => {
                    if self.dead.insert(process) {
                        for node in self.nodes.values_mut() {
                            node.died_elsewhere(&mut self.net, process, &why);
                        }
                    }
                }
                After::LeftParent { node, left } => self.left_parent(node, &left),
                After::Call(call) => call.make(),
            }
        }
    }
}
