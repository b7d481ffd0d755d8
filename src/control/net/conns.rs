//! A process's connections, without sockets: the buffers, the encryption and the [`Role`] of each.
//! The owner of the sockets runs the [`Action`]s, transmits the bytes and reports the results.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::hub::NodeKey;
use super::ident::CommId;
use super::message::Message;
use super::proof::{CHALLENGE, Proof, Secret};
use super::seal::{Forged, Seal};

/// The most bytes that are encrypted at a time: heartbeats of other connections wait meanwhile.
pub(super) const AT_ONCE: usize = 1 << 20;

/// Identifies a connection; keys are never reused.
pub(super) type Key = u64;

/// An action for the owner of the sockets, to be run in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Connect {
        key: Key,
        address: SocketAddr,
    },
    /// Discards unsent bytes.
    Close(Key),
    /// Resumes accepting at this acceptor.
    Accept(usize),
    CloseAcceptor(usize),
}

#[derive(Clone, Debug)]
pub(super) struct ConnectError {
    pub(super) why: String,
    /// Nothing listens at the address.
    pub(super) is_refused: bool,
    /// This process lacks descriptors or memory, which says nothing about the peer.
    pub(super) is_local: bool,
}

/// The purpose of a connection.
pub(super) enum Role {
    /// Accepted, not yet authenticated.
    Unauthenticated { challenge: [u8; CHALLENGE], acceptor: Option<CommId> },
    /// Accepted for a communicator without a node here yet; not authenticated.
    Parked { proof: Proof, id: CommId },
    /// Outgoing, for a node.
    Dial { node: NodeKey, sent: Option<Proof> },
    /// Outgoing: tests whether an orphaned rank is alive.
    Probe { node: NodeKey, rank: u32 },
    /// Accepted: a rank at the rendezvous.
    BootstrapPeer { meet: CommId },
    /// Outgoing: a node's connection to the rendezvous.
    Bootstrap { node: NodeKey },
    /// An edge of a communicator's tree.
    Link { node: NodeKey, peer: u32 },
    /// Draining: flushes its output, then waits for the peer to close.
    Ending {
        /// Process exit waits for the peer to close, since until then it may have unread data.
        is_awaited: bool,
    },
    /// Draining, and never authenticated.
    Refused,
}

impl Role {
    /// Whether both sides have proven that they know the secret.
    pub(super) fn is_authenticated(&self) -> bool {
        matches!(self, Self::BootstrapPeer { .. } | Self::Bootstrap { .. } | Self::Link { .. })
    }

    /// Whether it was accepted, and the other side has not proven that it knows the secret.
    pub(super) fn is_unproven(&self) -> bool {
        matches!(self, Self::Unauthenticated { .. } | Self::Parked { .. } | Self::Refused)
    }
}

pub(super) struct Conn {
    pub(super) role: Role,
    peer: Option<SocketAddr>,
    pub(super) since: Instant,
    /// When the peer last sent anything, and when this side last did.
    pub(super) last_received: Instant,
    pub(super) last_sent: Instant,
    pub(super) input: Vec<u8>,
    /// Received bytes of an incomplete record.
    sealed: Vec<u8>,
    /// The encryption, if the ranks have a secret.
    seal: Option<Seal>,
    /// Messages to be encrypted, of which `taken` bytes are.
    plain: Vec<u8>,
    taken: usize,
    /// Bytes to be transmitted, of which `sent` are.
    output: Vec<u8>,
    sent: usize,
    is_dirty: bool,
    is_shut: bool,
}

pub(super) struct Conns {
    all: BTreeMap<Key, Conn>,
    next: Key,
    actions: VecDeque<Action>,
    /// Connections with work for the owner of the sockets.
    dirty: Vec<Key>,
    /// Unauthenticated connections, oldest first.
    unproven: VecDeque<Key>,
    pub(super) heartbeat: Duration,
    /// The time of the current event.
    pub(super) now: Instant,
}

impl Conns {
    pub(super) fn new(heartbeat: Duration, now: Instant) -> Self {
        Self {
            all: BTreeMap::new(),
            next: 0,
            actions: VecDeque::new(),
            dirty: Vec::new(),
            unproven: VecDeque::new(),
            heartbeat,
            now,
        }
    }

    /// Adds an accepted connection.
    pub(super) fn add(&mut self, peer: Option<SocketAddr>, role: Role) -> Key {
        let (key, now) = (self.next, self.now);
        self.next += 1;
        if let Role::Unauthenticated { .. } = role {
            self.unproven.push_back(key);
        }
        let conn = Conn {
            role,
            peer,
            since: now,
            last_received: now,
            last_sent: now,
            input: Vec::new(),
            sealed: Vec::new(),
            seal: None,
            plain: Vec::new(),
            taken: 0,
            output: Vec::new(),
            sent: 0,
            is_dirty: false,
            is_shut: false,
        };
        self.all.insert(key, conn);
        key
    }

    pub(super) fn connect(&mut self, address: SocketAddr, role: Role) -> Key {
        let key = self.add(Some(address), role);
        self.push_action(Action::Connect { key, address });
        key
    }

    pub(super) fn push_action(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn get(&mut self, key: Key) -> Option<&mut Conn> {
        self.all.get_mut(&key)
    }

    /// Closes a connection at once and discards unsent bytes.
    pub(super) fn remove(&mut self, key: Key) -> Option<Role> {
        let conn = self.all.remove(&key)?;
        self.push_action(Action::Close(key));
        Some(conn.role)
    }

    /// Closes a connection once its output is flushed and the peer has closed.
    pub(super) fn end(&mut self, key: Key) {
        self.start_ending(key, false);
    }

    /// As [`end`](Self::end), and process exit waits for the peer to close: the kernel resets a
    /// connection that is closed with unread input, and drops output that the peer has not
    /// received.
    pub(super) fn end_awaited(&mut self, key: Key) {
        self.start_ending(key, true);
    }

    fn start_ending(&mut self, key: Key, is_awaited: bool) {
        let now = self.now;
        if let Some(conn) = self.get(key) {
            conn.since = now;
            self.end_as(key, Role::Ending { is_awaited });
        }
    }

    /// As [`end`](Self::end) for an unauthenticated connection, whose time limit keeps running.
    pub(super) fn refuse(&mut self, key: Key) {
        self.end_as(key, Role::Refused);
    }

    fn end_as(&mut self, key: Key, role: Role) {
        if let Some(conn) = self.get(key) {
            conn.role = role;
            conn.input = Vec::new();
            self.mark_dirty(key);
        }
    }

    pub(super) fn send(&mut self, key: Key, message: &Message<'_>) {
        if let Some(conn) = self.get(key) {
            conn.write(message);
            self.mark_dirty(key);
        }
    }

    /// Encrypts everything that follows, if the ranks have a secret. The keys depend on `proof`.
    pub(super) fn seal(&mut self, key: Key, secret: &Secret, proof: &Proof, connects: bool) {
        let transcript: [&[u8]; 2] = [&proof.challenge, &proof.claim];
        let Some(conn) = self.get(key).filter(|_| secret.is_secret()) else { return };
        let seal = Seal::start_handshake(secret, &transcript, connects, &mut conn.output);
        conn.seal = Some(seal.unwrap_or(Seal::Broken));
        self.mark_dirty(key);
    }

    /// Sends a heartbeat on every connection that has been idle for one interval.
    pub(super) fn send_heartbeats(&mut self) {
        let now = self.now;
        for (&key, conn) in &mut self.all {
            if conn.role.is_authenticated() && now - conn.last_sent >= self.heartbeat {
                conn.last_sent = now;
                conn.write(&Message::Beat);
                if !std::mem::replace(&mut conn.is_dirty, true) {
                    self.dirty.push(key);
                }
            }
        }
    }

    /// Sends bytes without a frame.
    pub(super) fn send_raw(&mut self, key: Key, bytes: &[u8]) {
        if let Some(conn) = self.get(key) {
            conn.output.extend(bytes);
            self.mark_dirty(key);
        }
    }

    /// Hands the connection to the owner of the sockets.
    pub(super) fn mark_dirty(&mut self, key: Key) {
        if let Some(conn) = self.all.get_mut(&key)
            && !std::mem::replace(&mut conn.is_dirty, true)
        {
            self.dirty.push(key);
        }
    }

    pub(super) fn take_dirty(&mut self) -> Vec<Key> {
        let dirty = std::mem::take(&mut self.dirty);
        for key in &dirty {
            if let Some(conn) = self.get(*key) {
                conn.is_dirty = false;
            }
        }
        dirty
    }

    /// The bytes to transmit; `None` if the connection is closed.
    pub(super) fn poll_transmit(&mut self, key: Key) -> Option<&[u8]> {
        let conn = self.all.get_mut(&key)?;
        // Seal here rather than per frame, so that one record holds every message since the last
        // write.
        if conn.output.is_empty() && !conn.plain.is_empty() {
            conn.seal_next();
        }
        Some(&conn.output[conn.sent..])
    }

    /// The first `count` of these bytes were transmitted.
    pub(super) fn handle_sent(&mut self, key: Key, count: usize) {
        let now = self.now;
        let Some(conn) = self.get(key) else { return };
        conn.sent += count;
        conn.last_sent = now;
        if conn.sent == conn.output.len() {
            conn.sent = 0;
            conn.output.clear();
            conn.output.shrink_to(1 << 16);
        } else if conn.sent > 1 << 20 && conn.sent > conn.output.len() / 2 {
            conn.output.drain(..conn.sent);
            conn.sent = 0;
        }
    }

    /// Whether the write side can be shut down; true once.
    pub(super) fn poll_shutdown(&mut self, key: Key) -> bool {
        self.get(key).is_some_and(|conn| {
            let is_over = matches!(conn.role, Role::Ending { .. } | Role::Refused);
            is_over && !conn.has_more() && !std::mem::replace(&mut conn.is_shut, true)
        })
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.all.keys().copied().collect()
    }

    /// The number of unauthenticated connections, and the oldest.
    pub(super) fn unproven(&mut self) -> (usize, Option<(Key, Instant)>) {
        let all = &self.all;
        let is_unproven = |key: &Key| all.get(key).is_some_and(|conn| conn.role.is_unproven());
        self.unproven.retain(is_unproven);
        let oldest = self.unproven.front().and_then(|key| Some((*key, all.get(key)?.since)));
        (self.unproven.len(), oldest)
    }

    /// Whether all output is flushed, and no peer is awaited.
    pub(super) fn is_drained(&self) -> bool {
        let is_awaited = |role: &Role| matches!(role, Role::Ending { is_awaited: true });
        self.all.values().all(|conn| !conn.has_more() && !is_awaited(&conn.role))
    }
}

impl Conn {
    fn write(&mut self, message: &Message<'_>) {
        message.push(if self.is_sealed() { &mut self.plain } else { &mut self.output });
    }

    /// Buffers received bytes. On a sealed connection only an authentic record proves that the peer
    /// is alive.
    pub(super) fn handle_bytes(&mut self, bytes: &[u8], now: Instant) -> Result<(), Forged> {
        let Some(seal) = &mut self.seal else {
            self.last_received = now;
            self.input.extend(bytes);
            return Ok(());
        };
        let before = self.input.len();
        self.sealed.extend(bytes);
        let opened = seal.open(&mut self.sealed, &mut self.input, &mut self.output);
        if self.input.len() > before {
            self.last_received = now;
        }
        opened
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// Encrypts the next bytes, unless the handshake is not done.
    fn seal_next(&mut self) {
        let Some(seal) = &mut self.seal else { return };
        let end = self.plain.len().min(self.taken + AT_ONCE);
        if seal.seal(&self.plain[self.taken..end], &mut self.output) {
            self.taken = end;
        }
        if self.taken == self.plain.len() {
            self.taken = 0;
            self.plain.clear();
            self.plain.shrink_to(1 << 16);
        }
    }

    pub(super) fn has_more(&self) -> bool {
        !self.output.is_empty() || !self.plain.is_empty()
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{AT_ONCE, Conns, Role};
    use crate::control::net::message::{Message, Tell};
    use crate::control::net::proof::{CHALLENGE, CLAIM, Proof, Secret};

    #[test]
    fn a_large_message_is_sealed_in_parts() {
        let now = Instant::now();
        let mut sides = [(); 2].map(|()| Conns::new(Duration::from_secs(1), now));
        let keys = [0, 1].map(|side| sides[side].add(None, Role::Link { node: 7, peer: 1 }));
        let proof = Proof { challenge: [1; CHALLENGE], claim: [2; CLAIM] };
        for (side, key) in keys.into_iter().enumerate() {
            sides[side].seal(key, &Secret::of_text("same"), &proof, side == 0);
        }
        let bytes: Vec<u8> = (0..5 * AT_ONCE / 2).map(|byte| byte as u8).collect();
        let message = Message::Tell(Tell {
            from: 0,
            to: None,
            channel: 0,
            number: 1,
            bytes: (&bytes).into(),
        });
        sides[0].send(keys[0], &message);
        sides[0].send(keys[0], &Message::Beat);
        let mut expected = Vec::new();
        message.push(&mut expected);
        Message::Beat.push(&mut expected);
        let mut parts = 0;
        for round in 0..20 {
            let (from, to) = (round % 2, 1 - round % 2);
            let sent = sides[from].poll_transmit(keys[from]).expect("it is open").to_vec();
            assert!(sent.len() < AT_ONCE + AT_ONCE / 100, "{} bytes at once", sent.len());
            parts += usize::from(sent.len() > AT_ONCE / 4);
            sides[from].handle_sent(keys[from], sent.len());
            let conn = sides[to].get(keys[to]).expect("it is open");
            conn.handle_bytes(&sent, now).expect("it is authentic");
        }
        let conn = sides[1].get(keys[1]).expect("it is open");
        assert!(conn.input == expected, "{} bytes of {}", conn.input.len(), expected.len());
        assert_eq!(parts, 3);
        assert!(sides[0].is_drained());
    }
}
