//! Timers: what nodes wait for, and connections that fell silent.

use std::time::Duration;

use super::super::conns::{Action, Role};
use super::super::node::Node;
use super::{Endpoint, Timer};

/// How often every connection is checked.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// The limit for authentication.
const UNPROVEN: Duration = Duration::from_secs(3);

/// The limit for the challenge on an outgoing connection.
const ANSWER: Duration = Duration::from_secs(3);

/// The limit for draining a connection.
const ENDING: Duration = Duration::from_secs(5);

/// The upper limit for draining if process exit waits for the peer.
const AWAITED: Duration = Duration::from_secs(15);

impl Endpoint {
    pub(super) fn handle_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Flush(node) => self.with_node(node, Node::flush),
            Timer::Dial(node) => self.with_node(node, Node::retry_dial),
            Timer::Expect(node) => self.with_node(node, Node::judge_orphans),
            Timer::Probe(node) => self.with_node(node, Node::probe_orphans),
            Timer::Confirm(node) => self.with_node(node, Node::confirm_deaths),
            Timer::Accept(acceptor) => self.net.conns.push_action(Action::Accept(acceptor)),
            Timer::Tick => self.tick(),
        }
    }

    fn tick(&mut self) {
        let (now, heartbeat) = (self.net.now(), self.net.conns.heartbeat);
        self.net.timers.set(now + TICK.min(heartbeat / 4), Timer::Tick);
        // A delayed thread has not read yet what peers sent meanwhile, so their silence proves
        // nothing.
        let was_late = now - std::mem::replace(&mut self.last_tick, now) > heartbeat.min(TICK * 2);
        self.net.conns.send_heartbeats();
        for key in self.net.conns.keys() {
            let Some(conn) = self.net.conns.get(key) else { continue };
            if was_late {
                (conn.last_received, conn.since) = (now, now);
            }
            let (age, silence) = (now - conn.since, now - conn.last_received);
            let is_silent = silence >= heartbeat * 3;
            let why = || format!("it has said nothing for {} s", silence.as_secs());
            match &conn.role {
                role if role.is_unproven() && age >= UNPROVEN => {
                    self.net.conns.remove(key);
                }
                Role::Ending { is_awaited } => {
                    let silent = (heartbeat * 3).clamp(ENDING, AWAITED);
                    if age >= if *is_awaited { silent } else { ENDING } {
                        self.net.conns.remove(key);
                    }
                }
                Role::Dial { sent: None, .. } if age >= ANSWER => {
                    self.connection_lost(key, "it does not answer");
                }
                // The peer may have accepted already, so it gets as long as a neighbour may be
                // silent.
                Role::Dial { .. } if age >= ANSWER.max(heartbeat * 3) => {
                    self.connection_lost(key, "it does not answer")
                }
                Role::Link { node, .. } if is_silent => {
                    let node = *node;
                    self.with_node(node, |node, net| node.handle_silence(net, key, &why()));
                }
                Role::BootstrapPeer { .. } | Role::Bootstrap { .. } if is_silent => {
                    self.connection_lost(key, &why());
                }
                _ => {}
            }
            self.run_deferred();
        }
        self.nodes.values_mut().for_each(|node| node.forget_old_messages(&mut self.net));
        self.rendezvous.values_mut().for_each(|meet| meet.tick(&mut self.net.conns));
        self.close_finished_rendezvous();
        self.net.tables.lock().retain(|_, table| table.strong_count() > 0);
    }
}
