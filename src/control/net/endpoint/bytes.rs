//! Received bytes: proofs first, then frames.

use std::time::Instant;

use super::super::conns::{ConnectError, Key, Role};
use super::super::frame;
use super::super::hub::NodeKey;
use super::super::ident::{self, CommId};
use super::super::message::Message;
use super::super::proof::{self, CHALLENGE, CLAIM, Proof, VERDICT, Verdict};
use super::{Endpoint, ROOM};

/// The most messages that one event handles. One read holds hundreds of small ones, and on a
/// crowded machine a silent peer is taken for dead before they are all handled.
const AT_ONCE: usize = 16;

/// Why a connection with a forged record ends.
const FORGED: &str = "a message of it was changed, repeated or left out on its way: somebody else is on the connection";

impl Endpoint {
    pub(in super::super) fn handle_connect_error(
        &mut self,
        key: Key,
        unmade: &ConnectError,
        now: Instant,
    ) {
        self.begin_event(now);
        let ConnectError { why, is_refused, is_local } = unmade;
        match self.net.conns.remove(key) {
            Some(Role::Dial { node, .. }) if *is_local => {
                self.with_node(node, |node, net| node.handle_local_dial_error(net, why));
            }
            Some(Role::Dial { node, .. }) => {
                self.with_node(node, |node, net| node.handle_dial_error(net, why, *is_refused));
            }
            Some(Role::Probe { node, rank }) => {
                self.with_node(node, |node, net| {
                    node.handle_probe_error(net, rank, why, *is_refused)
                });
            }
            _ => {}
        }
        self.run_deferred();
    }

    /// Handles received bytes. If it returns true, messages are left for
    /// [`handle_more`](Self::handle_more).
    #[must_use]
    pub(in super::super) fn handle_bytes(&mut self, key: Key, bytes: &[u8], now: Instant) -> bool {
        self.begin_event(now);
        let Some(conn) = self.net.conns.get(key) else { return false };
        let is_forged = conn.handle_bytes(bytes, now).is_err();
        let most = if is_forged { usize::MAX } else { AT_ONCE };
        let mut has_more = false;
        match conn.role {
            // Discard its input, but read it: a close with unread input would reset the connection.
            Role::Ending { .. } => conn.input.clear(),
            // A refused connection may send nothing more.
            Role::Refused => self.connection_lost(key, "it goes on"),
            _ => has_more = self.process_input(key, most),
        }
        if is_forged {
            self.connection_lost(key, FORGED);
        }
        self.net.conns.mark_dirty(key);
        self.run_deferred();
        has_more
    }

    /// Handles further messages of a connection; whether more are left.
    #[must_use]
    pub(in super::super) fn handle_more(&mut self, key: Key, now: Instant) -> bool {
        self.begin_event(now);
        let has_more = self.process_input(key, AT_ONCE);
        self.net.conns.mark_dirty(key);
        self.run_deferred();
        has_more
    }

    /// The peer closed the connection, or it broke. Messages that are left come first: the last one
    /// may be a goodbye.
    pub(in super::super) fn handle_closed(&mut self, key: Key, reason: &str, now: Instant) {
        self.begin_event(now);
        self.process_input(key, usize::MAX);
        self.connection_lost(key, reason);
        self.run_deferred();
    }

    /// Handles a connection that ended without a goodbye.
    pub(super) fn connection_lost(&mut self, key: Key, reason: &str) {
        match self.net.conns.remove(key) {
            Some(Role::Dial { node, .. }) => {
                self.with_node(node, |node, net| node.handle_dial_error(net, reason, false));
            }
            Some(Role::Probe { node, rank }) => {
                self.with_node(node, |node, net| node.handle_probe_error(net, rank, reason, false));
            }
            Some(Role::BootstrapPeer { meet }) => {
                if let Some(rendezvous) = self.rendezvous.get_mut(&meet) {
                    rendezvous.handle_closed(&mut self.net.conns, key, reason);
                    self.forward_departures(meet);
                }
            }
            Some(Role::Bootstrap { node } | Role::Link { node, .. }) => {
                self.with_node(node, |node, net| node.handle_closed(net, key, reason));
            }
            Some(
                Role::Unauthenticated { .. }
                | Role::Parked { .. }
                | Role::Ending { .. }
                | Role::Refused,
            )
            | None => {}
        }
    }

    /// Processes at most so many complete proofs and frames of a connection's input; whether it
    /// stopped there.
    fn process_input(&mut self, key: Key, most: usize) -> bool {
        let Some(conn) = self.net.conns.get(key) else { return false };
        let mut input = std::mem::take(&mut conn.input);
        let was_sealed = conn.is_sealed();
        let (mut used, mut count) = (0, 0);
        while count < most
            && let Some(conn) = self.net.conns.get(key)
        {
            let rest = &input[used..];
            let consumed = match &conn.role {
                Role::Unauthenticated { challenge, acceptor } => {
                    let (challenge, acceptor) = (*challenge, *acceptor);
                    rest.first_chunk::<CLAIM>().map(|claim| {
                        self.handle_claim(key, &Proof { challenge, claim: *claim }, acceptor);
                        CLAIM
                    })
                }
                // A claim is all that it may send before the verdict.
                Role::Parked { .. } if !rest.is_empty() => {
                    self.net.conns.remove(key);
                    return false;
                }
                Role::Parked { .. } => None,
                Role::Dial { node, sent: None } => {
                    let node = *node;
                    rest.first_chunk::<CHALLENGE>().map(|challenge| {
                        self.handle_challenge(key, node, challenge);
                        CHALLENGE
                    })
                }
                Role::Dial { node, sent: Some(proof) } => {
                    let (node, proof) = (*node, *proof);
                    rest.first_chunk::<VERDICT>().map(|verdict| {
                        self.handle_verdict(key, node, &proof, verdict);
                        VERDICT
                    })
                }
                Role::Probe { .. } | Role::Ending { .. } | Role::Refused => return false,
                Role::BootstrapPeer { .. } | Role::Bootstrap { .. } | Role::Link { .. } => {
                    match self.handle_frame(key, rest) {
                        Ok(consumed) => consumed,
                        Err(why) => {
                            let reason = format!("it sent what no rank sends: {why}");
                            self.connection_lost(key, &reason);
                            return false;
                        }
                    }
                }
            };
            match consumed {
                Some(consumed) => used += consumed,
                None => break,
            }
            count += 1;
            self.run_deferred();
            // The handshake starts after the verdict: anything behind it is not the peer's.
            let is_sealed = self.net.conns.get(key).is_some_and(|conn| conn.is_sealed());
            if is_sealed && !was_sealed && used < input.len() {
                self.connection_lost(key, FORGED);
                return false;
            }
        }
        let Some(conn) = self.net.conns.get(key) else { return false };
        input.drain(..used);
        if input.is_empty() {
            input.shrink_to(ROOM);
        }
        conn.input = input;
        count == most
    }

    /// A node's outgoing connection received the challenge.
    fn handle_challenge(&mut self, key: Key, node: NodeKey, challenge: &[u8; CHALLENGE]) {
        let Some(node) = self.nodes.get_mut(&node) else {
            self.net.conns.remove(key);
            return;
        };
        let nonce = ident::random();
        let (Some(_), Some(claim), Ok(nonce)) = (proof::challenger(challenge), node.claim(), nonce)
        else {
            self.net.conns.remove(key);
            return node.handle_dial_error(
                &mut self.net,
                "what listens there is not typed-nccl",
                false,
            );
        };
        let proof = claim.prove((&node.secret, node.job_of(challenge)), challenge, nonce);
        self.net.conns.send_raw(key, &proof.claim);
        if let Some(conn) = self.net.conns.get(key) {
            conn.role = Role::Dial { node: node.key(), sent: Some(proof) };
        }
    }

    /// A node's outgoing connection received the verdict.
    fn handle_verdict(&mut self, key: Key, node: NodeKey, proof: &Proof, verdict: &[u8; VERDICT]) {
        let (net, challenge) = (&mut self.net, &proof.challenge);
        let (Some(node), Some(other)) = (self.nodes.get_mut(&node), proof::challenger(challenge))
        else {
            net.conns.remove(key);
            return;
        };
        let verdict = proof.verify_verdict(&node.secret, verdict);
        if verdict == Some(Verdict::Welcome) {
            net.conns.seal(key, &node.secret, proof, true);
        }
        if verdict == Some(Verdict::Unproven) && node.job_of(challenge).is_some() {
            net.conns.remove(key);
            return node.handle_other_secret(net);
        }
        let Some(role) = node.handle_verdict(net, key, verdict, other) else {
            net.conns.remove(key);
            return;
        };
        let Some(conn) = net.conns.get(key) else { return };
        let link = if let Role::Link { peer, .. } = role { Some(peer) } else { None };
        conn.role = role;
        if let Some(peer) = link {
            node.handle_linked(net, key, peer, false);
        }
    }

    /// Handles the first frame; its length, if it is complete.
    fn handle_frame(&mut self, key: Key, input: &[u8]) -> Result<Option<usize>, String> {
        let net = &mut self.net;
        let Some(conn) = net.conns.get(key) else { return Ok(None) };
        let most = match conn.role {
            Role::BootstrapPeer { .. } => frame::MOST_BOOTSTRAP,
            _ => frame::MOST,
        };
        let long = |long: frame::TooLong| format!("a message of {} bytes", long.0);
        let Some(content) = frame::next(input, most).map_err(long)? else { return Ok(None) };
        let length = content.end;
        let message: Message<'_> =
            postcard::from_bytes(&input[content]).map_err(|error| error.to_string())?;
        let is_sane = match conn.role {
            Role::Link { node, peer } => match self.nodes.get_mut(&node) {
                Some(node) => node.handle_message(net, key, peer, message),
                None => true,
            },
            Role::Bootstrap { node } => match self.nodes.get_mut(&node) {
                Some(node) => node.handle_bootstrap_message(net, key, message),
                None => true,
            },
            Role::BootstrapPeer { meet } => self.handle_bootstrap_message(key, meet, message),
            _ => true,
        };
        is_sane.then_some(Some(length)).ok_or_else(|| "a message out of place".to_owned())
    }

    /// Tells the local nodes about ranks that left the rendezvous: a rank without a place in the
    /// tree has no neighbour to report its death.
    fn forward_departures(&mut self, meet: CommId) {
        let Some(rendezvous) = self.rendezvous.get_mut(&meet) else { return };
        let (comm, left) = rendezvous.take_departures();
        if left.is_empty() {
            return;
        }
        // The ranks left because of it. It may still be on its way to the nodes here.
        let failure = rendezvous.never_met();
        let here = self.net.local_nodes.range((comm, 0)..=(comm, u32::MAX));
        for node in here.map(|(_, node)| *node).collect::<Vec<_>>() {
            if let Some(failure) = &failure {
                self.with_node(node, |node, net| node.handle_failure(net, failure.clone(), None));
            }
            for left in &left {
                self.with_node(node, |node, net| {
                    node.handle_departure(net, left.clone(), None);
                });
            }
        }
    }

    fn handle_bootstrap_message(&mut self, key: Key, id: CommId, message: Message<'_>) -> bool {
        let conns = &mut self.net.conns;
        let Some(meet) = self.rendezvous.get_mut(&id) else {
            conns.end(key);
            return true;
        };
        match message {
            Message::Hello(hello) => {
                let is_sane = meet.handle_hello(conns, key, hello);
                if let Some((owner, failure)) = meet.mixed_failure() {
                    self.with_node(owner, |node, net| node.handle_mixed_jobs(net, failure));
                }
                return is_sane;
            }
            Message::Linked => meet.handle_linked(conns, key),
            Message::Left(left) => {
                meet.handle_departure(conns, key, left);
                self.forward_departures(id);
            }
            Message::Bye { .. } => {
                meet.handle_bye(conns, key);
                self.forward_departures(id);
            }
            Message::Beat => {}
            _ => return false,
        }
        self.close_finished_rendezvous();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::conns::{Key, Role};
    use super::super::super::ident::CommId;
    use super::super::super::message::{Hello, Member, Message};
    use super::super::super::proof::Secret;
    use super::super::super::rendezvous::Rendezvous;
    use super::super::Endpoint;
    use super::AT_ONCE;
    use std::time::{Duration, Instant};

    #[test]
    fn heartbeats_are_sent_between_the_messages_of_one_read() {
        let (heartbeat, mut now) = (Duration::from_secs(1), Instant::now());
        let mut endpoint = Endpoint::new(1, heartbeat, 8, now);
        let mut link = || endpoint.net.conns.add(None, Role::Link { node: 7, peer: 1 });
        let [busy, idle]: [Key; 2] = [link(), link()];
        let mut bytes = Vec::new();
        (0..100).for_each(|_| Message::Beat.push(&mut bytes));
        let (mut calls, mut sent) = (1, 0);
        let mut has_more = endpoint.handle_bytes(busy, &bytes, now);
        while has_more {
            // This process gets a processor once in a while.
            now += heartbeat;
            has_more = endpoint.handle_more(busy, now);
            let beat = endpoint.conns().poll_transmit(idle).map_or(0, <[u8]>::len);
            endpoint.conns().handle_sent(idle, beat);
            (calls, sent) = (calls + 1, sent + usize::from(beat > 0));
        }
        assert!(calls > 4 && sent == calls - 1, "{calls} calls, {sent} heartbeats");
        let conn = endpoint.conns().get(busy);
        assert!(conn.is_some_and(|conn| conn.input.is_empty()));
    }

    #[test]
    fn messages_that_are_left_come_before_the_end_of_their_connection() {
        let now = Instant::now();
        let mut endpoint = Endpoint::new(1, Duration::from_secs(1), 8, now);
        let meet = CommId([7; 16]);
        let rendezvous = Rendezvous::new(meet, meet, Secret::of_bytes([1; 32]), (None, None));
        endpoint.rendezvous.insert(meet, rendezvous);
        let mut guest = || endpoint.net.conns.add(None, Role::BootstrapPeer { meet });
        let [stays, leaves]: [Key; 2] = [guest(), guest()];
        let mut input = Vec::new();
        for (rank, key) in [(1, stays), (2, leaves)] {
            let member = Member {
                host: "h".to_owned(),
                host_number: 0,
                pid: rank,
                process: rank.into(),
                addresses: Vec::new(),
            };
            let hello = Hello { rank, size: 4, seat: rank.into(), job: "".into(), member };
            input.clear();
            Message::Hello(hello).push(&mut input);
            assert!(!endpoint.handle_bytes(key, &input, now));
        }
        input.clear();
        (0..AT_ONCE).for_each(|_| Message::Beat.push(&mut input));
        Message::Bye { all_finished: false }.push(&mut input);
        assert!(endpoint.handle_bytes(leaves, &input, now));
        endpoint.handle_closed(leaves, "its connection was closed", now);
        let told = endpoint.conns().poll_transmit(stays).unwrap_or_default();
        let told = String::from_utf8_lossy(told);
        assert!(told.contains("it left before") && !told.contains("is gone"), "{told}");
    }
}
