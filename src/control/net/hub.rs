//! The process's handle on the control thread, which all its communicators share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mio::Waker;
use mio::net::TcpListener;

use super::address::{self, IFACE};
use super::endpoint::{OWN_ACCEPTOR, ResumedAt};
use super::ident::{self, CommId};
use super::io::Io;
use super::job::Job;
use super::ledger::Contribution;
use super::message::{Leaves, Member};
use super::node::{ChildSpec, Spec};
use super::proof::Secret;
use crate::backend::Listener;
use crate::control::RateLimited;
use crate::error::{Error, InitFailed};
use crate::lock::Mutex;
use crate::{Rank, Result};

/// The variable for the heartbeat interval, in seconds.
const HEARTBEAT: &str = "TYPED_NCCL_HEARTBEAT";

/// Identifies a node of this process.
pub(super) type NodeKey = u64;

/// A command to the control thread.
pub(super) enum Command {
    Open(Box<Spec>),
    Child {
        parent: NodeKey,
        child: Box<ChildSpec>,
    },
    /// The rendezvous of a node is known, or has changed.
    Found {
        node: NodeKey,
        at: Vec<SocketAddr>,
        id: CommId,
        secret: Option<Secret>,
    },
    /// Opens a rendezvous in this process.
    Meet {
        id: CommId,
        secret: Secret,
        /// The number and the port of an acceptor of its own.
        acceptor: Option<(usize, u16)>,
        owner: Option<NodeKey>,
        job: Option<Job>,
    },
    Post {
        node: NodeKey,
        seq: u64,
        contribution: Arc<Contribution>,
    },
    Leave {
        node: NodeKey,
        why: String,
        how: Leaves,
    },
    Tell {
        node: NodeKey,
        to: Option<Rank>,
        channel: u64,
        bytes: Vec<u8>,
    },
    Listen {
        node: NodeKey,
        channel: u64,
        listener: Weak<dyn Listener>,
    },
    Close(NodeKey),
    /// The process exits: flushes everything, then reports on the channel.
    End(Sender<()>),
    /// Reports the communicator of a node.
    #[cfg(any(test, feature = "models"))]
    Id {
        node: NodeKey,
        to: Sender<CommId>,
    },
    /// Cuts a node's connections, as if its process were killed.
    #[cfg(any(test, feature = "models"))]
    Kill(NodeKey),
    /// Several commands without an event in between.
    #[cfg(test)]
    AtOnce(Vec<Self>),
}

/// A request to the control thread.
pub(super) enum Ask {
    /// Accepts connections at this listener too.
    Acceptor(usize, TcpListener),
    Command(Command),
}

/// See the module.
pub(super) struct Hub {
    asks: Mutex<Sender<Ask>>,
    /// `None` in the simulation, which polls the requests.
    waker: Option<Waker>,
    next_acceptor: AtomicUsize,
    /// The addresses at which other processes reach this one.
    pub(super) addresses: Vec<SocketAddr>,
    resumed_at: ResumedAt,
}

/// The process-wide hub.
pub(super) fn hub() -> Result<Arc<Hub>> {
    static HUB: Mutex<Option<Arc<Hub>>> = Mutex::new(None);
    let mut hub = HUB.lock();
    if let Some(hub) = &*hub {
        return Ok(hub.clone());
    }
    let new = Hub::start(heartbeat()?)?;
    super::exit::flush_at_exit(&new);
    Ok(hub.insert(new).clone())
}

impl Hub {
    pub(super) fn start(heartbeat: Duration) -> Result<Arc<Self>> {
        let chosen = address::chosen().map_err(failed)?;
        let only = chosen.as_ref().and_then(|ips| ips.first()).map(|ip| SocketAddr::new(*ip, 0));
        let cannot = |what: &str, error: std::io::Error| failed(format!("{what}: {error}"));
        let listener = address::listen(only).map_err(|error| match only {
            Some(only) => cannot(&format!("cannot listen at {only} ({IFACE})"), error),
            None => cannot("cannot listen for the other ranks", error),
        })?;
        let local = listener.local_addr().map_err(|error| cannot("cannot listen", error))?;
        let port = local.port();
        let addresses = match chosen {
            Some(ips) => ips.into_iter().take(1).map(|ip| SocketAddr::new(ip, port)).collect(),
            None => address::own(port),
        };
        let (asks, receiver) = channel();
        let io = Io::new(listener, receiver, heartbeat)
            .map_err(|error| cannot("cannot wait for connections", error))?;
        let waker = io.waker().map_err(|error| cannot("cannot wait for connections", error))?;
        let hub = Self::of(asks, Some(waker), addresses, io.endpoint.resumed_at());
        let thread = std::thread::Builder::new().name("typed-nccl control".to_owned());
        thread.spawn(move || io.run()).map_err(|error| cannot("no thread for it", error))?;
        Ok(Arc::new(hub))
    }

    fn of(
        asks: Sender<Ask>,
        waker: Option<Waker>,
        addresses: Vec<SocketAddr>,
        resumed_at: ResumedAt,
    ) -> Self {
        let next_acceptor = AtomicUsize::new(OWN_ACCEPTOR + 1);
        Self { asks: Mutex::new(asks), waker, next_acceptor, addresses, resumed_at }
    }

    /// A hub without a thread; the caller handles the requests.
    #[cfg(any(test, feature = "models"))]
    pub(super) fn unattended(
        addresses: Vec<SocketAddr>,
        resumed_at: ResumedAt,
    ) -> (Arc<Self>, std::sync::mpsc::Receiver<Ask>) {
        let (asks, receiver) = channel();
        (Arc::new(Self::of(asks, None, addresses, resumed_at)), receiver)
    }

    /// Accepts connections at this listener too; the acceptor's number and port.
    pub(super) fn add_acceptor(&self, listener: TcpListener) -> (usize, u16) {
        let port = listener.local_addr().map_or(0, |at| at.port());
        let acceptor = self.next_acceptor.fetch_add(1, Relaxed);
        self.ask(Ask::Acceptor(acceptor, listener));
        (acceptor, port)
    }

    /// When this process last resumed after a stop of more than three heartbeats.
    pub(super) fn resumed_at(&self) -> Option<Instant> {
        *self.resumed_at.lock()
    }

    pub(super) fn send(&self, command: Command) {
        self.ask(Ask::Command(command));
    }

    fn ask(&self, ask: Ask) {
        let asks = self.asks.lock();
        // The thread runs for as long as a sender exists.
        let _ = asks.send(ask);
        drop(asks);
        if let Some(Err(error)) = self.waker.as_ref().map(Waker::wake) {
            static ASLEEP: RateLimited = RateLimited::new();
            ASLEEP.warn(format_args!("cannot wake the control thread: {error}"));
        }
    }

    /// This process's entry in the member table.
    pub(super) fn member(&self, process: u64) -> Member {
        let (host, host_number) = ident::host().clone();
        let addresses = self.addresses.clone();
        Member { host, host_number, pid: std::process::id(), process, addresses }
    }
}

/// An error that concerns the whole control plane.
pub(super) fn failed(why: String) -> Error {
    Error::InitFailed(Box::new(InitFailed { size: 0, ranks: Vec::new(), why }))
}

fn heartbeat() -> Result<Duration> {
    let Some(value) = std::env::var_os(HEARTBEAT) else { return Ok(Duration::from_secs(5)) };
    let value = value.to_string_lossy();
    let seconds = value.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        failed(format!("{HEARTBEAT}={value}: give seconds between two signs of life, 0.1 to 3600"))
    })
}
