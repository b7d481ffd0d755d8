//! What comes on connections: proofs first, then frames.

use std::time::Instant;

use super::super::conns::{Key, Role, Unmade};
use super::super::frame;
use super::super::hub::NodeKey;
use super::super::ident::{self, CommId};
use super::super::message::Message;
use super::super::proof::{self, CHALLENGE, CLAIM, VERDICT, Verdict};
use super::super::rendezvous::Rendezvous;
use super::{Endpoint, ROOM};

/// Why a connection ends on which something else came than the other side had sent.
const FORGED: &str = "a message of it was changed, repeated or left out on its way: somebody else is on the connection";

impl Endpoint {
    /// A connection that this side asked for is not to be had.
    pub(in super::super) fn not_connected(&mut self, key: Key, unmade: &Unmade, now: Instant) {
        self.at_time(now);
        let Unmade { why, is_refused, is_own } = unmade;
        match self.net.conns.remove(key) {
            Some(Role::Dial { node, .. }) if *is_own => {
                self.at(node, |node, net| node.cannot_dial(net, why));
            }
            Some(Role::Dial { node, .. }) => {
                self.at(node, |node, net| node.dial_failed(net, why, *is_refused));
            }
            Some(Role::Probe { node, rank }) => {
                self.at(node, |node, net| node.probe_failed(net, rank, why, *is_refused));
            }
            _ => {}
        }
        self.settle();
    }

    /// Bytes have come.
    pub(in super::super) fn came(&mut self, key: Key, bytes: &[u8], now: Instant) {
        self.at_time(now);
        let Some(conn) = self.net.conns.get(key) else { return };
        let is_forged = conn.hear(bytes, now).is_err();
        match conn.role {
            // The other side may lack what this one needs to end in good order.
            Role::Ending { .. } => conn.input.clear(),
            // It has said all that it may.
            Role::Refused => self.lose(key, "it goes on"),
            _ => self.input(key),
        }
        if is_forged {
            self.lose(key, FORGED);
        }
        self.net.conns.touch(key);
        self.settle();
    }

    /// The other side has closed a connection, or it broke.
    pub(in super::super) fn closed(&mut self, key: Key, reason: &str, now: Instant) {
        self.at_time(now);
        self.lose(key, reason);
        self.settle();
    }

    /// A connection has ended without a word.
    pub(super) fn lose(&mut self, key: Key, reason: &str) {
        match self.net.conns.remove(key) {
            Some(Role::Dial { node, .. }) => {
                self.at(node, |node, net| node.dial_failed(net, reason, false));
            }
            Some(Role::Probe { node, rank }) => {
                self.at(node, |node, net| node.probe_failed(net, rank, reason, false));
            }
            Some(Role::BootstrapPeer { meet }) => {
                if let Some(place) = self.meets.get_mut(&meet) {
                    place.closed(&mut self.net.conns, key, reason);
                    self.guest_left(meet);
                }
            }
            Some(Role::Bootstrap { node } | Role::Link { node, .. }) => {
                self.at(node, |node, net| node.closed(net, key, reason));
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

    /// Reads what has come as far as it is whole.
    fn input(&mut self, key: Key) {
        let Some(conn) = self.net.conns.get(key) else { return };
        let mut input = std::mem::take(&mut conn.input);
        let was_sealed = conn.is_sealed();
        let mut used = 0;
        while let Some(conn) = self.net.conns.get(key) {
            let rest = &input[used..];
            let took = match &conn.role {
                Role::Unauthenticated { challenge, acceptor } => {
                    let (challenge, acceptor) = (*challenge, *acceptor);
                    rest.first_chunk::<CLAIM>().map(|claim| {
                        self.judge(key, &challenge, claim, acceptor);
                        CLAIM
                    })
                }
                // It has said all that it may.
                Role::Parked { .. } if !rest.is_empty() => {
                    self.net.conns.remove(key);
                    return;
                }
                Role::Parked { .. } => None,
                Role::Dial { node, sent: None } => {
                    let node = *node;
                    rest.first_chunk::<CHALLENGE>().map(|challenge| {
                        self.challenged(key, node, challenge);
                        CHALLENGE
                    })
                }
                Role::Dial { node, sent: Some((challenge, claim)) } => {
                    let (node, challenge, claim) = (*node, *challenge, *claim);
                    rest.first_chunk::<VERDICT>().map(|verdict| {
                        self.judged(key, node, &challenge, &claim, verdict);
                        VERDICT
                    })
                }
                Role::Probe { .. } | Role::Ending { .. } | Role::Refused => return,
                Role::BootstrapPeer { .. } | Role::Bootstrap { .. } | Role::Link { .. } => {
                    match self.frame(key, rest) {
                        Ok(took) => took,
                        Err(why) => {
                            let reason = format!("it sent what no rank sends: {why}");
                            return self.lose(key, &reason);
                        }
                    }
                }
            };
            match took {
                Some(took) => used += took,
                None => break,
            }
            self.settle();
            // Nobody who is sealed says anything before the other side has its keys.
            let is_sealed = self.net.conns.get(key).is_some_and(|conn| conn.is_sealed());
            if is_sealed && !was_sealed && used < input.len() {
                return self.lose(key, FORGED);
            }
        }
        if let Some(conn) = self.net.conns.get(key) {
            input.drain(..used);
            if input.is_empty() {
                input.shrink_to(ROOM);
            }
            conn.input = input;
        }
    }

    /// The other side of a connection that a node makes wants proof.
    fn challenged(&mut self, key: Key, node: NodeKey, challenge: &[u8; CHALLENGE]) {
        let Some(node) = self.nodes.get_mut(&node) else {
            self.net.conns.remove(key);
            return;
        };
        let nonce = ident::random();
        let (Some(_), Some(claim), Ok(nonce)) = (proof::challenger(challenge), node.claim(), nonce)
        else {
            self.net.conns.remove(key);
            return node.dial_failed(&mut self.net, "what listens there is not typed-nccl", false);
        };
        let claim = claim.prove((&node.secret, node.job_of(challenge)), challenge, nonce);
        self.net.conns.send_raw(key, &claim);
        if let Some(conn) = self.net.conns.get(key) {
            conn.role = Role::Dial { node: node.key(), sent: Some((*challenge, claim)) };
        }
    }

    /// The other side has decided.
    fn judged(
        &mut self,
        key: Key,
        node: NodeKey,
        challenge: &[u8; CHALLENGE],
        claim: &[u8; CLAIM],
        verdict: &[u8; VERDICT],
    ) {
        let net = &mut self.net;
        let (Some(node), Some(other)) = (self.nodes.get_mut(&node), proof::challenger(challenge))
        else {
            net.conns.remove(key);
            return;
        };
        let verdict = proof::judged(&node.secret, challenge, claim, verdict);
        if verdict == Some(Verdict::Welcome) {
            net.conns.seal(key, &node.secret, [challenge, claim], true);
        }
        if verdict == Some(Verdict::Unproven) && node.job_of(challenge).is_some() {
            net.conns.remove(key);
            return node.has_other_secret(net);
        }
        let Some(role) = node.judged(net, key, verdict, other) else {
            net.conns.remove(key);
            return;
        };
        let Some(conn) = net.conns.get(key) else { return };
        let link = if let Role::Link { peer, .. } = role { Some(peer) } else { None };
        conn.role = role;
        if let Some(peer) = link {
            node.linked(net, key, peer, false);
        }
    }

    /// Takes one frame; how long it was, if it was whole.
    fn frame(&mut self, key: Key, input: &[u8]) -> Result<Option<usize>, String> {
        let net = &mut self.net;
        let Some(conn) = net.conns.get(key) else { return Ok(None) };
        let most = match conn.role {
            Role::BootstrapPeer { .. } => frame::MOST_OF_GUESTS,
            _ => frame::MOST,
        };
        let long = |long: frame::TooLong| format!("a message of {} bytes", long.0);
        let Some(content) = frame::next(input, most).map_err(long)? else { return Ok(None) };
        let length = content.end;
        let message: Message<'_> =
            postcard::from_bytes(&input[content]).map_err(|error| error.to_string())?;
        let is_sane = match conn.role {
            Role::Link { node, peer } => match self.nodes.get_mut(&node) {
                Some(node) => node.heard(net, key, peer, message),
                None => true,
            },
            Role::Bootstrap { node } => match self.nodes.get_mut(&node) {
                Some(node) => node.bootstrap_message(net, key, message),
                None => true,
            },
            Role::BootstrapPeer { meet } => self.guest(key, meet, message),
            _ => true,
        };
        is_sane.then_some(Some(length)).ok_or_else(|| "a message out of place".to_owned())
    }

    /// A rank has left that was yet to find its place: the ranks in the tree may hear of it in no
    /// other way than by those of them that are here.
    fn guest_left(&mut self, meet: CommId) {
        let Some((comm, left)) = self.meets.get_mut(&meet).map(Rendezvous::news) else { return };
        if left.is_empty() {
            return;
        }
        let here = self.net.homes.range((comm, 0)..=(comm, u32::MAX));
        for node in here.map(|(_, node)| *node).collect::<Vec<_>>() {
            for left in &left {
                self.at(node, |node, net| {
                    node.left(net, left.clone(), None);
                });
            }
        }
    }

    fn guest(&mut self, key: Key, id: CommId, message: Message<'_>) -> bool {
        let conns = &mut self.net.conns;
        let Some(meet) = self.meets.get_mut(&id) else {
            conns.end(key);
            return true;
        };
        match message {
            Message::Hello(hello) => {
                let is_sane = meet.hello(conns, key, hello);
                if let Some((owner, failure)) = meet.is_mixed() {
                    self.at(owner, |node, net| node.is_mixed(net, failure));
                }
                return is_sane;
            }
            Message::Linked => meet.linked(conns, key),
            Message::Left(left) => {
                meet.left(conns, key, left);
                self.guest_left(id);
            }
            Message::Bye => {
                meet.bye(conns, key);
                self.guest_left(id);
            }
            Message::Beat => {}
            _ => return false,
        }
        self.end_meets();
        true
    }
}
