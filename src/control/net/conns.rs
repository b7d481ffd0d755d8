//! A process's connections, without sockets: what has come on each, what is to be sent, and what it
//! is for. Whoever owns the sockets takes the [`Action`]s and the bytes, and says what became of
//! them.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::hub::NodeKey;
use super::ident::CommId;
use super::message::Message;
use super::proof::{CHALLENGE, CLAIM, Secret};
use super::seal::{Forged, Seal};

/// Which connection, of all that ever were.
pub(super) type Key = u64;

/// What the owner of the sockets is to do, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Connect {
        key: Key,
        address: SocketAddr,
    },
    /// What was not sent is lost.
    Close(Key),
    /// Takes connections at a door again.
    Accept(usize),
    CloseAcceptor(usize),
}

/// Why a connection could not be made.
#[derive(Clone, Debug)]
pub(super) struct ConnectError {
    pub(super) why: String,
    /// Nobody listens there.
    pub(super) is_refused: bool,
    /// This process lacks what a connection takes: that says nothing of the other side.
    pub(super) is_local: bool,
}

/// What a connection is for.
pub(super) enum Role {
    /// Came, and has proven nothing yet.
    Unauthenticated { challenge: [u8; CHALLENGE], acceptor: Option<CommId> },
    /// Came for a communicator that is not here yet. It has proven nothing.
    Parked { challenge: [u8; CHALLENGE], claim: [u8; CLAIM], id: CommId },
    /// This side connects, for a node.
    Dial { node: NodeKey, sent: Option<([u8; CHALLENGE], [u8; CLAIM])> },
    /// This side looks whether a rank lives that a node misses.
    Probe { node: NodeKey, rank: u32 },
    /// A rank that has come to where the ranks meet.
    BootstrapPeer { meet: CommId },
    /// A node's connection to where the ranks meet.
    Bootstrap { node: NodeKey },
    /// Between two nodes of a communicator's tree.
    Link { node: NodeKey, peer: u32 },
    /// Over, but for what is still to be written, and for the other side's end of it.
    Ending {
        /// The process does not end before the other side has: it may not have read everything.
        is_awaited: bool,
    },
    /// The same, of one that has proven nothing.
    Refused,
}

impl Role {
    /// Whose neighbour the other side is.
    pub(super) fn link(&self) -> Option<NodeKey> {
        if let Self::Link { node, .. } = self { Some(*node) } else { None }
    }
}

pub(super) struct Conn {
    pub(super) role: Role,
    peer: Option<SocketAddr>,
    pub(super) since: Instant,
    /// When the other side was last heard, and last told something.
    pub(super) last_received: Instant,
    pub(super) last_sent: Instant,
    pub(super) input: Vec<u8>,
    /// Records that are not whole.
    sealed: Vec<u8>,
    seal: Seal,
    /// What is to be sealed.
    plain: Vec<u8>,
    /// What is to be sent.
    output: Vec<u8>,
    sent: usize,
    is_dirty: bool,
    is_shut: bool,
}

/// All connections of a process.
pub(super) struct Conns {
    all: BTreeMap<Key, Conn>,
    next: Key,
    actions: VecDeque<Action>,
    /// Those with something to send.
    dirty: Vec<Key>,
    /// Those that have proven nothing, the oldest first.
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

    /// A connection that somebody else has made.
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
            seal: Seal::default(),
            plain: Vec::new(),
            output: Vec::new(),
            sent: 0,
            is_dirty: false,
            is_shut: false,
        };
        self.all.insert(key, conn);
        key
    }

    /// Asks for a connection.
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

    /// Ends a connection now; what was not sent is lost.
    pub(super) fn remove(&mut self, key: Key) -> Option<Role> {
        let conn = self.all.remove(&key)?;
        self.push_action(Action::Close(key));
        Some(conn.role)
    }

    /// Ends a connection when everything is sent and the other side has ended it too.
    pub(super) fn end(&mut self, key: Key) {
        self.start_ending(key, false);
    }

    /// The same, where the other side is to know all that it was told before this process ends:
    /// what the system still has to send is lost if the process ends with something unread.
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

    /// The same for one that has proven nothing: it has no more time for that than it had.
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

    /// What follows on a connection is sealed, if its ranks have a secret. `said` is what both
    /// sides have said so far.
    pub(super) fn seal(
        &mut self,
        key: Key,
        secret: &Secret,
        transcript: [&[u8]; 2],
        connects: bool,
    ) {
        let Some(conn) = self.get(key).filter(|_| secret.is_secret()) else { return };
        conn.seal = Seal::start_handshake(secret, &transcript, connects, &mut conn.output)
            .unwrap_or(Seal::Broken);
        self.mark_dirty(key);
    }

    /// Says on every connection that has been quiet for a heartbeat that this side lives.
    pub(super) fn send_heartbeats(&mut self) {
        let now = self.now;
        for (&key, conn) in &mut self.all {
            let is_authenticated = matches!(
                conn.role,
                Role::BootstrapPeer { .. } | Role::Bootstrap { .. } | Role::Link { .. }
            );
            if is_authenticated && now - conn.last_sent >= self.heartbeat {
                conn.last_sent = now;
                conn.write(&Message::Beat);
                if !std::mem::replace(&mut conn.is_dirty, true) {
                    self.dirty.push(key);
                }
            }
        }
    }

    /// Sends bytes that are no frame.
    pub(super) fn send_raw(&mut self, key: Key, bytes: &[u8]) {
        if let Some(conn) = self.get(key) {
            conn.output.extend(bytes);
            self.mark_dirty(key);
        }
    }

    /// Has the owner of the sockets look at the connection.
    pub(super) fn mark_dirty(&mut self, key: Key) {
        if let Some(conn) = self.all.get_mut(&key)
            && !std::mem::replace(&mut conn.is_dirty, true)
        {
            self.dirty.push(key);
        }
    }

    /// The connections that were touched.
    pub(super) fn take_dirty(&mut self) -> Vec<Key> {
        let dirty = std::mem::take(&mut self.dirty);
        for key in &dirty {
            if let Some(conn) = self.get(*key) {
                conn.is_dirty = false;
            }
        }
        dirty
    }

    /// What is to be sent; none if there is no such connection any more.
    pub(super) fn poll_transmit(&mut self, key: Key) -> Option<&[u8]> {
        let conn = self.all.get_mut(&key)?;
        // Here, and not frame by frame: one record has all that was said in the meantime.
        conn.seal.seal(&mut conn.plain, &mut conn.output);
        Some(&conn.output[conn.sent..])
    }

    /// So much of that is sent.
    pub(super) fn handle_sent(&mut self, key: Key, count: usize) {
        let now = self.now;
        let Some(conn) = self.get(key) else { return };
        conn.sent += count;
        conn.last_sent = now;
        if conn.sent == conn.output.len() {
            conn.sent = 0;
            conn.output.clear();
            conn.output.shrink_to(1 << 16);
        } else if conn.sent > 1 << 20 {
            conn.output.drain(..conn.sent);
            conn.sent = 0;
        }
    }

    /// Whether nothing more is ever sent on a connection; once.
    pub(super) fn poll_shutdown(&mut self, key: Key) -> bool {
        self.get(key).is_some_and(|conn| {
            let is_over = matches!(conn.role, Role::Ending { .. } | Role::Refused);
            is_over && !conn.has_more() && !std::mem::replace(&mut conn.is_shut, true)
        })
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.all.keys().copied().collect()
    }

    /// How many have proven nothing, and the oldest of them.
    pub(super) fn unproven(&mut self) -> (usize, Option<(Key, Instant)>) {
        let all = &self.all;
        let is_unproven = |key: &Key| {
            all.get(key).is_some_and(|conn| {
                matches!(
                    conn.role,
                    Role::Unauthenticated { .. } | Role::Parked { .. } | Role::Refused
                )
            })
        };
        self.unproven.retain(is_unproven);
        let oldest = self.unproven.front().and_then(|key| Some((*key, all.get(key)?.since)));
        (self.unproven.len(), oldest)
    }

    /// Whether everything is with the system, and with those who are to know it.
    pub(super) fn is_drained(&self) -> bool {
        let is_awaited = |role: &Role| matches!(role, Role::Ending { is_awaited: true });
        self.all.values().all(|conn| !conn.has_more() && !is_awaited(&conn.role))
    }
}

impl Conn {
    fn write(&mut self, message: &Message<'_>) {
        let is_open = self.seal.is_none();
        message.push(if is_open { &mut self.output } else { &mut self.plain });
    }

    /// Bytes have come. Only what the other side can have said is a sign that it lives.
    pub(super) fn handle_bytes(&mut self, bytes: &[u8], now: Instant) -> Result<(), Forged> {
        if self.seal.is_none() {
            self.last_received = now;
            self.input.extend(bytes);
            return Ok(());
        }
        let before = self.input.len();
        self.sealed.extend(bytes);
        let opened = self.seal.open(&mut self.sealed, &mut self.input, &mut self.output);
        if self.input.len() > before {
            self.last_received = now;
        }
        opened
    }

    /// Whether what comes and goes is sealed.
    pub(super) fn is_sealed(&self) -> bool {
        !self.seal.is_none()
    }

    fn has_more(&self) -> bool {
        !self.output.is_empty() || !self.plain.is_empty()
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}
