//! A process's nodes and rendezvous, as a state machine without sockets, clocks or threads.
//!
//! The owner of those feeds it events with their time and runs its
//! [`Action`](super::conns::Action)s: `io` with real sockets, `nodes` with simulated ones.

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
pub(super) use net::{Deferred, Net, Timer, Tombstone};
use splits::ChildOf;
pub(super) use times::TICK;

/// The acceptor that every process has.
pub(super) const OWN_ACCEPTOR: usize = 0;

/// The input buffer that an idle connection keeps.
const ROOM: usize = 1 << 16;

pub(super) struct Endpoint {
    net: Net,
    acceptors: BTreeMap<usize, Acceptor>,
    most_unproven: usize,
    nodes: BTreeMap<NodeKey, Node>,
    /// Those whose ranks are done.
    closing: BTreeSet<NodeKey>,
    rendezvous: BTreeMap<CommId, Rendezvous>,
    children: BTreeMap<NodeKey, Vec<ChildOf>>,
    dead_processes: BTreeSet<u64>,
    /// Why this process accepts no connections; empty if it does.
    accept_trouble: String,
    /// Notified when everything is flushed, at process exit.
    shutdown: Option<Sender<()>>,
    last_tick: Instant,
    last_heartbeat: Instant,
    last_event: Instant,
    resumed_at: ResumedAt,
}

/// When this process last resumed after a stop of more than three heartbeats.
pub(super) type ResumedAt = Arc<Mutex<Option<Instant>>>;

impl Endpoint {
    /// For a process that listens at `port`.
    pub(super) fn new(port: u16, heartbeat: Duration, most_unproven: usize, now: Instant) -> Self {
        let mut net = Net::new(Conns::new(heartbeat, now));
        net.timers.set(now + TICK, Timer::Tick);
        Self {
            net,
            acceptors: [(OWN_ACCEPTOR, Acceptor { port, meet: None })].into(),
            most_unproven,
            nodes: BTreeMap::new(),
            closing: BTreeSet::new(),
            rendezvous: BTreeMap::new(),
            children: BTreeMap::new(),
            dead_processes: BTreeSet::new(),
            accept_trouble: String::new(),
            shutdown: None,
            last_tick: now,
            last_heartbeat: now,
            last_event: now,
            resumed_at: ResumedAt::default(),
        }
    }

    /// Shares member tables with other endpoints in this memory.
    #[cfg(any(test, feature = "models"))]
    pub(super) fn share(&mut self, tables: Tables) {
        self.net.tables = tables;
    }

    pub(super) fn resumed_at(&self) -> ResumedAt {
        self.resumed_at.clone()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.net.timers.next()
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.net.conns.poll_action()
    }

    /// The connections, for transmitting.
    pub(super) fn conns(&mut self) -> &mut Conns {
        &mut self.net.conns
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.begin_event(now);
        while let Some(timer) = self.net.timers.due(now) {
            self.handle_timer(timer);
            self.run_deferred();
        }
    }

    pub(super) fn handle_connected(&mut self, key: Key, now: Instant) {
        self.begin_event(now);
        self.net.conns.mark_dirty(key);
    }

    /// Notes the time of an event. Sends heartbeats first: on an overloaded machine, handling the
    /// event can take longer than the peers' patience.
    fn begin_event(&mut self, now: Instant) {
        self.net.conns.now = now;
        // Every tick is an event, so a longer gap means that the process did not run, and that its
        // peers may have taken it for dead.
        let stopped = self.net.conns.heartbeat * 3;
        if now - std::mem::replace(&mut self.last_event, now) >= stopped {
            *self.resumed_at.lock() = Some(now);
            let heartbeat = self.net.conns.heartbeat;
            self.nodes.values_mut().for_each(|node| node.handle_resumed(heartbeat, now));
        }
        if now - self.last_heartbeat >= TICK {
            self.last_heartbeat = now;
            self.net.conns.send_heartbeats();
        }
    }

    /// Everything that the sockets accept is transmitted.
    pub(super) fn handle_flushed(&mut self) {
        if self.shutdown.is_some()
            && self.nodes.is_empty()
            && self.rendezvous.is_empty()
            && self.net.conns.is_drained()
            && let Some(done) = self.shutdown.take()
        {
            // The process may have stopped waiting.
            let _ = done.send(());
        }
    }

    /// Calls `act` with a node, if it still exists.
    fn with_node(&mut self, node: NodeKey, act: impl FnOnce(&mut Node, &mut Net)) {
        if let Some(node) = self.nodes.get_mut(&node) {
            act(node, &mut self.net);
        }
    }

    fn run_deferred(&mut self) {
        while let Some(after) = self.net.deferred.pop_front() {
            match after {
                Deferred::Arrived(id) => self.admit_parked(id),
                Deferred::Table(node) => self.start_children(node),
                Deferred::ProcessDied { process, why } => {
                    if self.dead_processes.insert(process) {
                        for node in self.nodes.values_mut() {
                            node.handle_process_death(&mut self.net, process, &why);
                        }
                    }
                }
                Deferred::Departed { node, left } => self.handle_parent_departure(node, &left),
                Deferred::Call(call) => call.make(),
            }
        }
        self.end_closed();
    }
}
