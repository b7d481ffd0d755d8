//! The control plane between processes: TCP connections in a tree.
//!
//! Each rank has a [`node`](node::Node), and a meeting that replicates the contributions of all
//! ranks. One thread runs all nodes of a process. [`proof`] decides who may take part,
//! [`rendezvous`] brings the ranks together, [`node`] handles deaths.
//!
//! Everything that a peer sends is bounded and validated before use.

mod address;
mod channels;
mod conns;
mod endpoint;
mod exit;
mod file;
mod finder;
mod frame;
#[cfg(any(test, feature = "models"))]
pub(super) mod fuzz;
mod hub;
mod ident;
mod inherited;
mod io;
mod job;
mod ledger;
mod message;
mod node;
#[cfg(any(test, feature = "models"))]
mod nodes;
mod proof;
mod rendezvous;
mod seal;
#[cfg(any(test, feature = "models"))]
mod simulate;
#[cfg(test)]
mod tests;
mod topics;
mod unique;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Instant;

#[cfg(any(test, feature = "models"))]
pub use fuzz::{Thrown, throw};
pub(super) use ident::sized;
pub(crate) use ident::{host, process};
pub(super) use ledger::{Contribution, Run};
#[cfg(any(test, feature = "models"))]
pub use nodes::{Lived, nodes};
#[cfg(any(test, feature = "models"))]
pub use simulate::{Simulated, simulate};
pub use unique::UniqueId;

use hub::{Command, Hub, NodeKey, hub};
use ident::CommId;
use job::Job;
use message::{Leaves, MOST_RANKS};

// A rank is stored beside its generation.
static_assertions::const_assert!(MOST_RANKS <= crate::rank::MOST);
use node::{ChildSpec, Meet, Spec};
use proof::Secret;

use super::Meeting;
use crate::backend::{Listener, Wire};
use crate::error::{Error, InitFailed};
use crate::{Rank, Result};

/// The variable with the job's shared secret.
pub(crate) const SECRET: &str = "TYPED_NCCL_SECRET";

/// The longest host value that can be sent to another process.
pub(crate) const MOST_BYTES: usize = frame::MOST - (1 << 16);

/// The channel of backends; exchange `seq` has channel `seq + 1`.
const BACKEND: u64 = 0;

/// A rank's connection to the control thread.
pub(super) struct Uplink {
    hub: Arc<Hub>,
    node: NodeKey,
}

fn next_node() -> NodeKey {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl Uplink {
    pub(super) fn post(&self, seq: u64, contribution: Arc<Contribution>) {
        self.hub.send(Command::Post { node: self.node, seq, contribution });
    }

    pub(super) fn leave(&self, why: &str, how: Leaves) {
        self.hub.send(Command::Leave { node: self.node, why: why.to_owned(), how });
    }

    /// When this process last resumed after a stop of more than three heartbeats.
    pub(super) fn resumed_at(&self) -> Option<Instant> {
        self.hub.resumed_at()
    }

    /// The rank is done.
    pub(super) fn close(&self) {
        self.hub.send(Command::Close(self.node));
    }

    pub(super) fn wire(&self) -> Arc<dyn Wire> {
        Arc::new(Line { hub: self.hub.clone(), node: self.node, channel: BACKEND })
    }

    /// Opens a rendezvous for newcomers in this process, which ends with this rank.
    pub(super) fn open_rendezvous(&self) -> Result<UniqueId> {
        UniqueId::at(&self.hub, Some(self.node))
    }

    /// The channel for messages about exchange `seq`.
    pub(super) fn line(&self, seq: u64) -> Arc<dyn Wire> {
        Arc::new(Line { hub: self.hub.clone(), node: self.node, channel: seq + 1 })
    }

    /// The communicator's id, once the ranks have met.
    #[cfg(any(test, feature = "models"))]
    fn comm_id(&self) -> Option<CommId> {
        let (to, id) = std::sync::mpsc::channel();
        self.hub.send(Command::Id { node: self.node, to });
        id.recv().ok()
    }

    pub(super) fn child(&self, seq: u64, color: u32, rank: usize, members: &[u32]) -> Arc<Meeting> {
        let key = next_node();
        let uplink = Self { hub: self.hub.clone(), node: key };
        let size = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let meeting = Meeting::replica(size, uplink);
        let (members, rank) = (members.to_vec(), Rank::at(rank).0);
        let weak = Arc::downgrade(&meeting);
        let child = Box::new(ChildSpec { key, meeting: weak, seq, color, rank, members });
        self.hub.send(Command::Child { parent: self.node, child });
        meeting
    }
}

/// The last handle is gone, so the rank is done.
impl Drop for Uplink {
    fn drop(&mut self) {
        self.close();
    }
}

/// A channel between the ranks of a communicator.
struct Line {
    hub: Arc<Hub>,
    node: NodeKey,
    channel: u64,
}

impl Wire for Line {
    fn tell(&self, to: Option<Rank>, message: Vec<u8>) {
        let Self { node, channel, .. } = *self;
        self.hub.send(Command::Tell { node, to, channel, bytes: message });
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        let Self { node, channel, .. } = *self;
        self.hub.send(Command::Listen { node, channel, listener });
    }
}

/// A rank that joins over the network.
struct Joiner {
    hub: Arc<Hub>,
    rank: u32,
    size: u32,
    process: u64,
}

impl Joiner {
    fn new(rank: usize, size: usize) -> Result<Self> {
        let hub = hub()?;
        Self::of(hub, rank, size, process()?)
    }

    fn of(hub: Arc<Hub>, rank: usize, size: usize, process: u64) -> Result<Self> {
        let fail = |why: String| Err(init_failed(size, why));
        match (u32::try_from(rank), u32::try_from(size)) {
            _ if !(1..=MOST_RANKS).contains(&size) => {
                fail(format!("a communicator has 1 to {MOST_RANKS} ranks"))
            }
            (Ok(rank), Ok(size)) if rank < size => Ok(Self { hub, rank, size, process }),
            _ => fail(format!("there is no rank {rank}: ranks count from 0")),
        }
    }

    /// Starts to look for the others.
    fn join(&self, key: NodeKey, meet: Meet, secret: Secret) -> Result<Arc<Meeting>> {
        let Self { rank, size, process, .. } = *self;
        let uplink = Uplink { hub: self.hub.clone(), node: key };
        let meeting = Meeting::replica(size, uplink);
        let (weak, member) = (Arc::downgrade(&meeting), self.hub.member(process));
        let meet = Some(meet);
        let seat = u64::from_le_bytes(ident::random()?);
        let spec = Spec { key, meeting: weak, rank, size, member, secret, meet, seat };
        self.hub.send(Command::Open(Box::new(spec)));
        Ok(meeting)
    }

    /// See `Seat::tcp`. Rank 0 takes the first free address.
    fn tcp(&self, addresses: &[String], secret: Secret, job: Option<Job>) -> Result<Arc<Meeting>> {
        let key = next_node();
        let (size, name) = (self.size as usize, addresses.join(" or "));
        let places: Result<Vec<_>, _> = addresses.iter().map(|at| finder::parse(at)).collect();
        let mut places = places.map_err(|why| init_failed(size, why))?;
        // A listener at that address may belong to another job, or to an earlier attempt of this
        // one.
        let (mut may_be_stale, mut host) = (job.is_some(), Some(0));
        if self.rank == 0 {
            let found = finder::listen(places, job.as_ref()).map_err(|error| {
                init_failed(size, format!("rank 0 cannot listen at {name}: {error}; rank 0 runs on the host of that address, where the port is free"))
            })?;
            let (acceptor, place) = found;
            places = vec![place];
            if let Some(acceptor) = acceptor {
                let id = CommId(ident::random()?);
                let acceptor = Some(self.hub.add_acceptor(acceptor));
                let (secret, owner, job) = (secret.clone(), Some(key), job.clone());
                self.hub.send(Command::Meet { id, secret, acceptor, owner, job });
            } else {
                // Another rank 0 of this job has the address. Joining it lets the ranks of both
                // jobs learn of the conflict.
                (may_be_stale, host) = (false, None);
            }
        }
        let addresses: Vec<_> = places.iter().filter_map(finder::Address::literal).collect();
        let is_known = !addresses.is_empty();
        let meet = Meet { id: CommId::THERE, addresses, name, may_be_stale, host, job };
        let meeting = self.join(key, meet, secret)?;
        if !is_known {
            finder::resolve(&self.hub, key, &meeting, places)?;
        }
        Ok(meeting)
    }

    /// See `Seat::file`.
    fn file(&self, path: &Path) -> Result<Arc<Meeting>> {
        let key = next_node();
        let size = self.size as usize;
        let name = path.display().to_string();
        if self.rank != 0 {
            // Until the file is read, use a secret that no process knows.
            let (id, addresses, host) = (CommId::THERE, Vec::new(), Some(0));
            let meet = Meet { id, addresses, name, may_be_stale: true, host, job: None };
            let meeting = self.join(key, meet, Secret::of_bytes(ident::random()?))?;
            finder::read(&self.hub, key, &meeting, path)?;
            return Ok(meeting);
        }
        let place = unique::BootstrapHandle::new(self.hub.addresses.clone())?;
        file::write(path, &place).map_err(|error| {
            init_failed(size, format!("rank 0 cannot write {}: {error}", path.display()))
        })?;
        place.open(&self.hub, Some(key));
        let meet = Meet { may_be_stale: true, host: Some(0), ..place.meet(name) };
        self.join(key, meet, place.secret)
    }

    /// See `Seat::with_id`.
    fn with_id(&self, id: UniqueId) -> Result<Arc<Meeting>> {
        let place = id.place().map_err(|why| init_failed(self.size as usize, why))?;
        let name = format!("of the id, made by the process at {}", shown(&place.addresses));
        self.join(next_node(), place.meet(name), place.secret)
    }
}

/// Joins the ranks that know `address`.
pub(crate) fn tcp(address: &str, rank: usize, size: usize) -> Result<Arc<Meeting>> {
    Joiner::new(rank, size)?.tcp(&[address.to_owned()], given_secret(""), None)
}

/// Joins the ranks of a job, at the first of these addresses that is free on rank 0's host; the
/// others may belong to other jobs. `job` is the same on all ranks. If it `is_unique`, no other job
/// has it.
pub(crate) fn job(
    addresses: &[String],
    (job, is_unique): (&str, bool),
    rank: usize,
    size: usize,
) -> Result<Arc<Meeting>> {
    let secret = given_secret(&format!("{job}\n"));
    Joiner::new(rank, size)?.tcp(addresses, secret, Some(Job::new(job, is_unique)))
}

/// Joins the ranks that read `path`.
pub(crate) fn file(path: &Path, rank: usize, size: usize) -> Result<Arc<Meeting>> {
    Joiner::new(rank, size)?.file(path)
}

/// Joins the ranks that have `id`.
pub(crate) fn with_id(id: UniqueId, rank: usize, size: usize) -> Result<Arc<Meeting>> {
    Joiner::new(rank, size)?.with_id(id)
}

/// The job's secret, prefixed with its name. The default is public: it prevents mistakes only, so
/// nothing is encrypted.
fn given_secret(job: &str) -> Secret {
    const NONE: &str = "typed-nccl without a secret";
    let given = std::env::var_os(SECRET).map(|secret| secret.to_string_lossy().into_owned());
    match given.filter(|secret| !secret.is_empty() && secret != NONE) {
        Some(given) => Secret::of_text(&format!("{job}{given}")),
        None => Secret::of_text(&format!("{job}{NONE}")).public(),
    }
}

fn shown(addresses: &[SocketAddr]) -> String {
    let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    all.join(" or ")
}

fn init_failed(size: usize, why: String) -> Error {
    Error::InitFailed(Box::new(InitFailed { size, ranks: Vec::new(), why }))
}
