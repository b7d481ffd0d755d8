//! Incoming connections, which must prove that they know the communicator's secret.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::super::super::RateLimited;
use super::super::conns::{Key, Role};
use super::super::ident::{self, CommId};
use super::super::proof::{self, Claim, Proof, Purpose, Secret, Verdict, Version};
use super::{Endpoint, Timer};

/// The time that the oldest unauthenticated connection has before a new one replaces it.
const ROOM: Duration = Duration::from_millis(250);

/// A listener.
pub(in super::super) struct Acceptor {
    pub(super) port: u16,
    /// The rendezvous of this listener, for ranks that know only its address.
    pub(super) meet: Option<CommId>,
}

impl Endpoint {
    /// Whether a connection may be accepted now; if not, [`Action::Accept`] follows.
    pub(in super::super) fn can_accept(&mut self, acceptor: usize, now: Instant) -> bool {
        self.begin_event(now);
        let (count, oldest) = self.net.conns.unproven();
        if count >= self.most_unproven
            && let Some((oldest, since)) = oldest
        {
            if now - since < ROOM {
                self.net.timers.set(since + ROOM, Timer::Accept(acceptor));
                return false;
            }
            self.net.conns.remove(oldest);
        }
        self.acceptors.contains_key(&acceptor)
    }

    pub(in super::super) fn handle_accepted(
        &mut self,
        acceptor: usize,
        peer: Option<SocketAddr>,
        now: Instant,
    ) -> Option<Key> {
        self.begin_event(now);
        self.set_accept_trouble("");
        let Acceptor { port, meet } = *self.acceptors.get(&acceptor)?;
        let nonce = ident::random().ok()?;
        let job = meet.and_then(|meet| self.rendezvous.get(&meet)?.launched.as_ref());
        let challenge = proof::challenge(nonce, job.map(|job| (&job.name, port)));
        let key = self.net.conns.add(peer, Role::Unauthenticated { challenge, acceptor: meet });
        self.net.conns.send_raw(key, &challenge);
        Some(key)
    }

    /// The system refused to accept a connection.
    pub(in super::super) fn handle_accept_error(
        &mut self,
        acceptor: usize,
        error: &str,
        now: Instant,
    ) {
        static UNTAKEN: RateLimited = RateLimited::new();
        self.begin_event(now);
        let why = format!("this process takes no connections: {error}");
        UNTAKEN.warn(&why);
        self.set_accept_trouble(&why);
        self.net.timers.set(now + ROOM, Timer::Accept(acceptor));
    }

    /// Reports in timeouts why this process accepts no connections; empty if it does.
    fn set_accept_trouble(&mut self, why: &str) {
        if self.accept_trouble != why {
            why.clone_into(&mut self.accept_trouble);
            self.nodes.values().for_each(|node| node.set_accept_trouble(why));
        }
    }

    /// Handles the claims of connections that waited for this communicator's node.
    pub(super) fn admit_parked(&mut self, id: CommId) {
        for key in self.net.conns.keys() {
            let Some(conn) = self.net.conns.get(key) else { continue };
            if let Role::Parked { proof, id: waits } = conn.role
                && waits == id
            {
                self.handle_claim(key, &proof, None);
            }
        }
    }

    pub(super) fn handle_claim(&mut self, key: Key, proof: &Proof, acceptor: Option<CommId>) {
        let Some(parsed) = Claim::read(&proof.claim) else {
            self.net.conns.remove(key);
            return;
        };
        let id = if parsed.id == CommId::THERE { acceptor.unwrap_or(parsed.id) } else { parsed.id };
        let target = (id, if parsed.purpose == Purpose::Meet { u32::MAX } else { parsed.to });
        let Some((secret, is_lost)) = self.secret_of(&parsed, target) else {
            return match parsed.purpose {
                Purpose::Meet => self.refuse(key, proof, None, Verdict::Unknown),
                Purpose::Link { .. } => {
                    if let Some(conn) = self.net.conns.get(key) {
                        conn.role = Role::Parked { proof: *proof, id };
                    }
                }
            };
        };
        if !proof.is_of(&secret) {
            self.report_unproven(key, id, parsed.from, proof);
            return self.refuse(key, proof, None, Verdict::Unproven);
        }
        if parsed.version != Version::own() {
            self.report_version_mismatch(id, &parsed);
            return self.refuse(key, proof, Some(&secret), Verdict::OtherVersion);
        }
        if let Some(is_lost) = is_lost {
            let verdict = if is_lost { Verdict::Dead } else { Verdict::Ended };
            return self.refuse(key, proof, Some(&secret), verdict);
        }
        let node = self.net.local_nodes.get(&target).and_then(|node| self.nodes.get(node));
        let role = match (parsed.purpose, node) {
            (Purpose::Meet, _) => Role::BootstrapPeer { meet: id },
            (Purpose::Link { .. }, Some(node)) if node.has_lost(parsed.from) => {
                return self.refuse(key, proof, Some(&secret), Verdict::Dead);
            }
            (Purpose::Link { .. }, Some(node))
                if parsed.from < node.size && parsed.from != node.rank =>
            {
                Role::Link { node: node.key(), peer: parsed.from }
            }
            (Purpose::Link { .. }, _) => {
                self.net.conns.remove(key);
                return;
            }
        };
        self.net.conns.send_raw(key, &proof.sign_verdict(Some(&secret), Verdict::Welcome));
        self.net.conns.seal(key, &secret, proof, false);
        if let Some(conn) = self.net.conns.get(key) {
            conn.role = role;
        }
        if let (Purpose::Link { has_table }, Some(&node)) =
            (parsed.purpose, self.net.local_nodes.get(&target))
        {
            self.with_node(node, |node, net| node.handle_linked(net, key, parsed.from, !has_table));
        }
    }

    /// The secret to check a claim against. For a communicator that has ended here, also whether
    /// the claiming rank was taken for dead.
    fn secret_of(&self, claim: &Claim, target: (CommId, u32)) -> Option<(Secret, Option<bool>)> {
        let here = match claim.purpose {
            Purpose::Meet => self.rendezvous.get(&target.0).map(|meet| &meet.secret),
            Purpose::Link { .. } => {
                let node = self.net.local_nodes.get(&target).and_then(|node| self.nodes.get(node));
                node.map(|node| &node.secret)
            }
        };
        let tombstone = || self.net.ended.get(target);
        let ended =
            || tombstone().map(|it| (it.secret.clone(), Some(it.lost.contains(&claim.from))));
        here.map(|secret| (secret.clone(), None)).or_else(ended)
    }

    /// Sends a verdict, with a proof if there is a secret.
    fn refuse(&mut self, key: Key, proof: &Proof, secret: Option<&Secret>, verdict: Verdict) {
        let conns = &mut self.net.conns;
        conns.send_raw(key, &proof.sign_verdict(secret, verdict));
        match secret {
            Some(_) => conns.end(key),
            None => conns.refuse(key),
        }
    }

    fn report_unproven(&mut self, key: Key, id: CommId, rank: u32, proof: &Proof) {
        static UNAUTHENTICATED: RateLimited = RateLimited::new();
        let peer = self.net.conns.get(key).and_then(|conn| conn.peer());
        let from = peer.map_or_else(String::new, |peer| format!(" from {peer}"));
        UNAUTHENTICATED.warn(format_args!(
            "a peer{from} claimed to be rank {rank} without knowing the secret"
        ));
        if let Some(meet) = self.rendezvous.get_mut(&id) {
            meet.handle_refused(&mut self.net.conns, rank, proof);
        }
    }

    fn report_version_mismatch(&mut self, id: CommId, parsed: &Claim) {
        let Some(meet) = self.rendezvous.get_mut(&id) else { return };
        let why = format!(
            "runs {}, and where the ranks meet it is {}: run one build on all ranks",
            parsed.version,
            Version::own()
        );
        meet.fail(&mut self.net.conns, vec![parsed.from], why);
    }
}
