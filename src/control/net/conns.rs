//! Connections: bytes in, bytes out, and what each is for. They know nothing of what is said.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use slab::Slab;

use super::address;
use super::hub::NodeKey;
use super::ident::CommId;
use super::message::Message;
use super::proof::{CHALLENGE, CLAIM};

/// Which connection.
pub(super) type Key = usize;

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
    stream: TcpStream,
    pub(super) role: Role,
    /// Of all connections that ever were.
    serial: u64,
    pub(super) since: Instant,
    /// When the other side was last heard, and last told something.
    pub(super) heard: Instant,
    pub(super) told: Instant,
    pub(super) input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    is_dirty: bool,
    is_shut: bool,
}

/// All connections of a process.
pub(super) struct Conns {
    all: Slab<Conn>,
    registry: Registry,
    next_serial: u64,
    /// Those with something to write.
    dirty: Vec<Key>,
    /// Those that have proven nothing, the oldest first.
    unproven: VecDeque<(Key, u64)>,
    pub(super) beat: Duration,
}

/// Tokens below this are no connections.
pub(super) const FIRST: usize = 1 << 20;

/// What came of reading.
pub(super) enum ReadOutcome {
    /// Nothing more for now.
    Nothing,
    Bytes,
    /// The other side has closed it, or it broke.
    End(String),
}

impl Conns {
    pub(super) fn new(registry: Registry, beat: Duration) -> Self {
        Self {
            all: Slab::new(),
            registry,
            next_serial: 0,
            dirty: Vec::new(),
            unproven: VecDeque::new(),
            beat,
        }
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(super) fn add(&mut self, mut stream: TcpStream, role: Role) -> io::Result<Key> {
        address::set_up(&stream, self.beat)?;
        let entry = self.all.vacant_entry();
        let key = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, Token(FIRST + key), interest)?;
        self.next_serial += 1;
        let (serial, now) = (self.next_serial, Instant::now());
        if let Role::Unauthenticated { .. } = role {
            self.unproven.push_back((key, serial));
        }
        entry.insert(Conn {
            stream,
            role,
            serial,
            since: now,
            heard: now,
            told: now,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            is_dirty: false,
            is_shut: false,
        });
        Ok(key)
    }

    pub(super) fn get(&mut self, key: Key) -> Option<&mut Conn> {
        self.all.get_mut(key)
    }

    /// Which connection of all that ever were has this key.
    pub(super) fn serial(&self, key: Key) -> Option<u64> {
        self.all.get(key).map(|conn| conn.serial)
    }

    /// Ends a connection now; what was not written is lost.
    pub(super) fn remove(&mut self, key: Key) -> Option<Role> {
        let mut conn = self.all.try_remove(key)?;
        if let Err(error) = self.registry.deregister(&mut conn.stream) {
            log::debug!("a connection that ends: {error}");
        }
        Some(conn.role)
    }

    /// Ends a connection when everything is written and the other side has ended it too.
    pub(super) fn end(&mut self, key: Key) {
        self.end_in_time(key, false);
    }

    /// The same, where the other side is to know all that it was told before this process ends: what the
    /// system still has to send is lost if the process ends with something unread.
    pub(super) fn end_well(&mut self, key: Key) {
        self.end_in_time(key, true);
    }

    fn end_in_time(&mut self, key: Key, is_awaited: bool) {
        if let Some(conn) = self.all.get_mut(key) {
            conn.since = Instant::now();
            self.end_as(key, Role::Ending { is_awaited });
        }
    }

    /// The same for one that has proven nothing: it has no more time for that than it had.
    pub(super) fn refuse(&mut self, key: Key) {
        self.end_as(key, Role::Refused);
    }

    fn end_as(&mut self, key: Key, role: Role) {
        if let Some(conn) = self.all.get_mut(key) {
            conn.role = role;
            conn.input = Vec::new();
            self.touch(key);
        }
    }

    pub(super) fn send(&mut self, key: Key, message: &Message<'_>) {
        if let Some(conn) = self.all.get_mut(key) {
            message.push(&mut conn.output);
            self.touch(key);
        }
    }

    /// Says on every connection that has been quiet for a heartbeat that this side lives.
    pub(super) fn beat(&mut self, now: Instant) {
        for (key, conn) in &mut self.all {
            let beats = matches!(
                conn.role,
                Role::BootstrapPeer { .. } | Role::Bootstrap { .. } | Role::Link { .. }
            );
            if beats && now - conn.told >= self.beat {
                conn.told = now;
                Message::Beat.push(&mut conn.output);
                if !std::mem::replace(&mut conn.is_dirty, true) {
                    self.dirty.push(key);
                }
            }
        }
    }

    /// Sends bytes that are no frame.
    pub(super) fn send_raw(&mut self, key: Key, bytes: &[u8]) {
        if let Some(conn) = self.all.get_mut(key) {
            conn.output.extend(bytes);
            self.touch(key);
        }
    }

    /// Has the connection written to soon.
    pub(super) fn touch(&mut self, key: Key) {
        if let Some(conn) = self.all.get_mut(key)
            && !conn.is_dirty
        {
            conn.is_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Writes what can be written; those that broke, and why.
    pub(super) fn write(&mut self) -> Vec<(Key, String)> {
        let mut broken = Vec::new();
        for key in std::mem::take(&mut self.dirty) {
            let Some(conn) = self.all.get_mut(key) else { continue };
            conn.is_dirty = false;
            if let Err(error) = conn.write() {
                broken.push((key, error.to_string()));
            }
        }
        broken
    }

    pub(super) fn read(&mut self, key: Key, scratch: &mut [u8]) -> ReadOutcome {
        let Some(conn) = self.all.get_mut(key) else { return ReadOutcome::Nothing };
        loop {
            return match conn.stream.read(scratch) {
                Ok(0) => ReadOutcome::End("its connection was closed".to_owned()),
                Ok(_) if matches!(conn.role, Role::Ending { .. }) => continue,
                // It has said all that it may.
                Ok(_) if matches!(conn.role, Role::Refused) => {
                    ReadOutcome::End("it goes on".to_owned())
                }
                Ok(n) => {
                    conn.heard = Instant::now();
                    conn.input.extend(&scratch[..n]);
                    ReadOutcome::Bytes
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => ReadOutcome::Nothing,
                Err(error) if error.kind() == ErrorKind::NotConnected => ReadOutcome::Nothing,
                Err(error) => ReadOutcome::End(format!("its connection broke: {error}")),
            };
        }
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.all.iter().map(|(key, _)| key).collect()
    }

    /// How many have proven nothing, and the oldest of them.
    pub(super) fn unproven(&mut self) -> (usize, Option<(Key, Instant)>) {
        let all = &self.all;
        let is_unproven = |&(key, serial): &(Key, u64)| {
            let conn = all.get(key).filter(|conn| conn.serial == serial);
            conn.is_some_and(|conn| {
                matches!(
                    conn.role,
                    Role::Unauthenticated { .. } | Role::Parked { .. } | Role::Refused
                )
            })
        };
        self.unproven.retain(is_unproven);
        let oldest = self.unproven.front().map(|&(key, _)| (key, all[key].since));
        (self.unproven.len(), oldest)
    }

    /// Whether everything is with the system, and with those who are to know it.
    pub(super) fn is_known(&self) -> bool {
        let is_awaited = |role: &Role| matches!(role, Role::Ending { is_awaited: true });
        self.all.iter().all(|(_, conn)| conn.output.is_empty() && !is_awaited(&conn.role))
    }
}

impl Conn {
    fn is_over(&self) -> bool {
        matches!(self.role, Role::Ending { .. } | Role::Refused)
    }

    fn write(&mut self) -> io::Result<()> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.written += n;
                    self.told = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if self.written == self.output.len() {
            self.written = 0;
            self.output.clear();
            self.output.shrink_to(1 << 16);
            if self.is_over() && !self.is_shut {
                self.is_shut = true;
                self.stream.shutdown(Shutdown::Write)?;
            }
        } else if self.written > 1 << 20 {
            self.output.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Whether a connection that this side asked for stands; why it does not.
    pub(super) fn connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok().map(address::plain)
    }
}
