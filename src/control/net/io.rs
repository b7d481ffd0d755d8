//! The control thread: owns the sockets and the clock, feeds events to the endpoint and runs its
//! actions.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::address;
use super::conns::{AT_ONCE, Action, ConnectError, Key};
use super::endpoint::{Endpoint, OWN_ACCEPTOR, TICK};
use super::hub::Ask;
use crate::quiet::Quiet;

const WAKER: Token = Token(0);

/// The first token of an acceptor, and of a connection.
const ACCEPTORS: usize = 1;
const STREAMS: usize = 1 << 20;

/// How often a connection that breaks is read; the peer may go on sending.
const LAST_READS: usize = 64;

/// The number of bytes per read.
const SCRATCH: usize = 1 << 16;

/// The most unauthenticated connections, and the divisor of the process's descriptor limit that
/// bounds them too.
const MOST_UNPROVEN: (usize, usize) = (1024, 2);

pub(super) struct Io {
    poll: Poll,
    asks: Receiver<Ask>,
    pub(super) endpoint: Endpoint,
    acceptors: HashMap<usize, TcpListener>,
    streams: HashMap<Key, Stream>,
    scratch: Vec<u8>,
    last_flush: Instant,
    /// Connections whose last read may have left data in the socket.
    unread: Vec<Key>,
    /// Connections that have more to write than was written in one turn.
    unsent: Vec<Key>,
    heartbeat: Duration,
}

struct Stream {
    socket: TcpStream,
    /// This side connects, and the handshake of TCP is not known to be done.
    is_connecting: bool,
}

impl Io {
    pub(super) fn new(
        listener: TcpListener,
        asks: Receiver<Ask>,
        heartbeat: Duration,
    ) -> io::Result<Self> {
        let (poll, now) = (Poll::new()?, Instant::now());
        let port = listener.local_addr()?.port();
        let mut io = Self {
            poll,
            asks,
            endpoint: Endpoint::new(port, heartbeat, most_unproven(), now),
            acceptors: HashMap::new(),
            streams: HashMap::new(),
            scratch: vec![0; SCRATCH],
            last_flush: now,
            unread: Vec::new(),
            unsent: Vec::new(),
            heartbeat,
        };
        io.add_acceptor(OWN_ACCEPTOR, listener)?;
        Ok(io)
    }

    pub(super) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKER)
    }

    fn add_acceptor(&mut self, acceptor: usize, mut listener: TcpListener) -> io::Result<()> {
        let token = Token(ACCEPTORS + acceptor);
        self.poll.registry().register(&mut listener, token, Interest::READABLE)?;
        self.acceptors.insert(acceptor, listener);
        Ok(())
    }

    /// Runs until every sender of commands is gone.
    pub(super) fn run(mut self) {
        let _quiet = Quiet::enter();
        let mut events = Events::with_capacity(1024);
        loop {
            let next = self.endpoint.poll_timeout();
            let timeout = match self.unread.is_empty() && self.unsent.is_empty() {
                true => next.map(|at| at.saturating_duration_since(Instant::now())),
                false => Some(Duration::ZERO),
            };
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != ErrorKind::Interrupted
            {
                log::error!("the control plane cannot wait for connections: {error}");
                std::thread::sleep(TICK);
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(token) if token < STREAMS => self.accept(token - ACCEPTORS),
                    Token(token) => {
                        self.handle_ready((token - STREAMS) as Key, event.is_writable())
                    }
                }
                self.run_actions();
                self.flush_if_due();
            }
            for key in std::mem::take(&mut self.unread) {
                self.handle_ready(key, false);
                self.run_actions();
                self.flush_if_due();
            }
            loop {
                match self.asks.try_recv() {
                    Ok(Ask::Acceptor(acceptor, listener)) => {
                        if let Err(error) = self.add_acceptor(acceptor, listener) {
                            log::error!("cannot listen for the ranks of a communicator: {error}");
                        }
                    }
                    Ok(Ask::Command(command)) => {
                        self.endpoint.handle_command(command, Instant::now())
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
                self.run_actions();
                self.flush_if_due();
            }
            self.endpoint.handle_timeout(Instant::now());
            for key in std::mem::take(&mut self.unsent) {
                self.endpoint.conns().mark_dirty(key);
            }
            self.flush();
        }
    }

    /// Transmits between events, so that heartbeats are not late while a long batch is processed.
    fn flush_if_due(&mut self) {
        if self.last_flush.elapsed() >= TICK {
            self.flush();
        }
    }

    fn run_actions(&mut self) {
        while let Some(action) = self.endpoint.poll_action() {
            match action {
                Action::Connect { key, address } => self.connect(key, address),
                Action::Close(key) => {
                    if let Some(mut stream) = self.streams.remove(&key)
                        && let Err(error) = self.poll.registry().deregister(&mut stream.socket)
                    {
                        log::debug!("cannot deregister a closed connection: {error}");
                    }
                }
                Action::Accept(acceptor) => self.accept(acceptor),
                Action::CloseAcceptor(acceptor) => {
                    // Deregister explicitly: an inherited socket is open elsewhere too, so closing
                    // this descriptor does not remove it from the poll.
                    if let Some(mut listener) = self.acceptors.remove(&acceptor)
                        && let Err(error) = self.poll.registry().deregister(&mut listener)
                    {
                        log::debug!("cannot deregister a closed listener: {error}");
                    }
                }
            }
        }
    }

    fn connect(&mut self, key: Key, address: SocketAddr) {
        let outcome = TcpStream::connect(address).and_then(|socket| self.add(key, socket, true));
        if let Err(error) = outcome {
            self.endpoint.handle_connect_error(key, &connect_error(&error), Instant::now());
        }
    }

    fn add(&mut self, key: Key, mut socket: TcpStream, is_connecting: bool) -> io::Result<()> {
        address::set_up(&socket, self.heartbeat)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = usize::try_from(key).map_or(usize::MAX, |key| STREAMS + key);
        self.poll.registry().register(&mut socket, Token(token), interest)?;
        self.streams.insert(key, Stream { socket, is_connecting });
        Ok(())
    }

    fn accept(&mut self, acceptor: usize) {
        while self.endpoint.can_accept(acceptor, Instant::now()) {
            let Some(listener) = self.acceptors.get(&acceptor) else { return };
            let (socket, peer) = match listener.accept() {
                Ok((socket, peer)) => (socket, address::plain(peer)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    let now = Instant::now();
                    return self.endpoint.handle_accept_error(acceptor, &error.to_string(), now);
                }
            };
            let now = Instant::now();
            if let Some(key) = self.endpoint.handle_accepted(acceptor, Some(peer), now)
                && let Err(error) = self.add(key, socket, false)
            {
                log::debug!("cannot set up an accepted connection: {error}");
                self.endpoint.handle_closed(key, &error.to_string(), now);
            }
        }
    }

    fn handle_ready(&mut self, key: Key, is_writable: bool) {
        if is_writable && !self.is_connected(key) {
            return;
        }
        if self.read(key) {
            // Other connections get their turn first.
            self.unread.push(key);
        }
    }

    /// Whether a connection is established; reports one that failed.
    fn is_connected(&mut self, key: Key) -> bool {
        let Some(stream) = self.streams.get_mut(&key) else { return false };
        let outcome = if stream.is_connecting { stream.check_connected() } else { Ok(true) };
        match outcome {
            Ok(is_connected) => {
                if is_connected {
                    stream.is_connecting = false;
                    self.endpoint.handle_connected(key, Instant::now());
                }
                is_connected
            }
            Err(error) => {
                self.endpoint.handle_connect_error(key, &connect_error(&error), Instant::now());
                false
            }
        }
    }

    /// Reads a connection once; whether more may follow.
    fn read(&mut self, key: Key) -> bool {
        let Some(stream) = self.streams.get_mut(&key) else { return false };
        let end = loop {
            match stream.socket.read(&mut self.scratch) {
                Ok(0) => break "its connection was closed".to_owned(),
                Ok(count) => {
                    let bytes = &self.scratch[..count];
                    let mut has_more = self.endpoint.handle_bytes(key, bytes, Instant::now());
                    self.run_actions();
                    while has_more {
                        self.flush_if_due();
                        has_more = self.endpoint.handle_more(key, Instant::now());
                        self.run_actions();
                    }
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::NotConnected => return false,
                Err(error) => break format!("its connection broke: {error}"),
            }
        };
        self.endpoint.handle_closed(key, &end, Instant::now());
        self.run_actions();
        false
    }

    fn flush(&mut self) {
        self.last_flush = Instant::now();
        loop {
            self.run_actions();
            let dirty = self.endpoint.conns().take_dirty();
            if dirty.is_empty() {
                break;
            }
            for key in dirty {
                let Err(error) = self.write(key) else { continue };
                // Read what the peer sent first: a rank that leaves says so before its connection
                // breaks.
                for _ in 0..LAST_READS {
                    if !self.read(key) {
                        break;
                    }
                }
                if self.streams.contains_key(&key) {
                    let reason = format!("its connection broke: {error}");
                    self.endpoint.handle_closed(key, &reason, Instant::now());
                    self.run_actions();
                }
            }
        }
        self.endpoint.handle_flushed();
    }

    fn write(&mut self, key: Key) -> io::Result<()> {
        let Self { streams, endpoint, unsent, .. } = self;
        let Some(Stream { socket, .. }) = streams.get_mut(&key) else { return Ok(()) };
        let conns = endpoint.conns();
        let mut written = 0;
        while let Some(bytes) = conns.poll_transmit(key).filter(|bytes| !bytes.is_empty()) {
            match socket.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    conns.handle_sent(key, count);
                    written += count;
                    if written > AT_ONCE {
                        // Other connections get their turn first.
                        unsent.push(key);
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if conns.poll_shutdown(key) { socket.shutdown(Shutdown::Write) } else { Ok(()) }
    }
}

impl Stream {
    /// Whether TCP has established the connection.
    fn check_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn connect_error(error: &io::Error) -> ConnectError {
    let own = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    ConnectError {
        why: error.to_string(),
        is_refused: error.kind() == ErrorKind::ConnectionRefused,
        is_local: error.raw_os_error().is_some_and(|code| own.contains(&code)),
    }
}

/// The limit on unauthenticated connections, which leaves descriptors for the ranks.
fn most_unproven() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes of an `rlimit`.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let (most, part) = MOST_UNPROVEN;
    let files = usize::try_from(limit.rlim_cur).ok().filter(|_| known).unwrap_or(usize::MAX);
    (files / part).clamp(1, most)
}
