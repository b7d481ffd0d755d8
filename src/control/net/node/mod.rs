//! One rank's position in its communicator's tree, which forwards all news up and down.
//!
//! The ranks' numbers determine the tree. News travels along it to every rank. Each node keeps what
//! a peer may lack, and two nodes that become neighbours exchange all of it, so neither the path
//! nor repetition matters. When a rank dies, its children attach to the nearest living ancestor,
//! else to the lowest living rank. The parent always has a lower number, so the ranks remain one
//! tree.

mod backend;
mod bootstrap;
mod death;
mod dial;
mod end;
mod exchange;
mod probe;
mod relay;
mod standing;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::channels::Channels;
use super::conns::Key;
use super::endpoint::{Deferred, Net};
use super::hub::NodeKey;
use super::ident::CommId;
use super::job::Job;
use super::ledger::{Ledger, parent};
use super::message::{Failure, Left, Member, Table};
use super::proof::Secret;
use crate::control::Meeting;
use crate::control::gathering::is_gathered;

use dial::Dial;
use exchange::{Hold, Link};
use probe::Probe;
use relay::Relay;
use standing::Standing;

/// The parameters of a node.
pub(super) struct Spec {
    pub(super) key: NodeKey,
    pub(super) meeting: Weak<Meeting>,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) member: Member,
    pub(super) secret: Secret,
    /// `None` for a child, whose ranks know each other.
    pub(super) meet: Option<Meet>,
    pub(super) seat: u64,
}

/// A node's rendezvous.
#[derive(Clone)]
pub(super) struct Meet {
    pub(super) id: CommId,
    /// Empty while unknown.
    pub(super) addresses: Vec<SocketAddr>,
    /// As the user wrote it, for errors.
    pub(super) name: String,
    /// A process at these addresses may belong to an earlier run or to another job.
    pub(super) may_be_stale: bool,
    /// The rank whose process has the rendezvous, if known.
    pub(super) host: Option<u32>,
    /// The job, if the launcher named it.
    pub(super) job: Option<Job>,
}

/// A rendezvous whose connection ended without a goodbye.
struct Lost {
    since: Instant,
    reason: String,
}

/// The parameters of a child's node.
pub(super) struct ChildSpec {
    pub(super) key: NodeKey,
    pub(super) meeting: Weak<Meeting>,
    pub(super) seq: u64,
    pub(super) color: u32,
    pub(super) rank: u32,
    pub(super) members: Vec<u32>,
}

pub(super) struct Node {
    key: NodeKey,
    meeting: Weak<Meeting>,
    pub(super) rank: u32,
    pub(super) size: u32,
    member: Member,
    pub(super) secret: Secret,
    meet: Option<Meet>,
    lost: Option<Lost>,
    seat: u64,
    pub(super) id: Option<CommId>,
    pub(super) table: Option<Arc<Table>>,
    /// Until the table is known: the parent, its parent and so on.
    ancestors: Vec<Member>,
    ledger: Ledger,
    standing: Standing,
    failed: Option<Failure>,
    up: Option<Key>,
    bootstrap: Option<Key>,
    dial: Option<Dial>,
    links: Vec<Link>,
    hold: Hold,
    pub(super) channels: Channels,
    relay: Relay,
    /// Splits that wait for the table.
    pub(super) pending_children: Vec<ChildSpec>,
    /// The last split that this rank joined.
    split: u64,
    /// Probes of ranks that should have attached to this one.
    probes: BTreeMap<u32, Probe>,
    /// Its rank is done, and it stays until then at most, to be heard.
    closing: Option<Instant>,
    /// What its rank said last has reached a rank that stays, or nobody needs it.
    is_heard: bool,
    /// Ranks that know what this node does, so they do not come to it: they read its goodbye, or
    /// one that said that all have finished.
    informed: BTreeSet<u32>,
}

impl Node {
    pub(super) fn new(spec: Spec) -> Self {
        let Spec { key, meeting, rank, size, member, secret, meet, seat } = spec;
        Self {
            key,
            meeting,
            rank,
            size,
            member,
            secret,
            meet,
            lost: None,
            seat,
            id: None,
            table: None,
            ancestors: Vec::new(),
            ledger: Ledger::new(rank, size),
            standing: Standing::new(rank, size),
            failed: None,
            up: None,
            bootstrap: None,
            dial: None,
            links: Vec::new(),
            hold: Hold::default(),
            channels: Channels::default(),
            relay: Relay::default(),
            pending_children: Vec::new(),
            split: 0,
            probes: BTreeMap::new(),
            closing: None,
            is_heard: false,
            informed: BTreeSet::new(),
        }
    }

    /// A child's node; `None` without the table.
    pub(super) fn child(&mut self, spec: ChildSpec) -> Option<Self> {
        let ChildSpec { key, meeting, seq, color, rank, members } = spec;
        let table = self.table.as_ref()?;
        let own = table.members.get(self.rank as usize)?.clone();
        let part = members.iter().map(|rank| table.members.get(*rank as usize).cloned());
        let part = Table::new(part.collect::<Option<_>>()?);
        let (secret, size) = (self.secret.clone(), u32::try_from(members.len()).ok()?);
        let spec = Spec { key, meeting, rank, size, member: own, secret, meet: None, seat: 0 };
        let id = self.id?.child(seq, color);
        Some(Self { id: Some(id), table: Some(Arc::new(part)), ..Self::new(spec) })
    }

    pub(super) fn key(&self) -> NodeKey {
        self.key
    }

    /// The ranks that have left, as far as this one knows.
    pub(super) fn departures(&self) -> impl Iterator<Item = &Left> {
        self.standing.left()
    }

    pub(super) fn has_lost(&self, rank: u32) -> bool {
        self.standing.has_died(rank)
    }

    fn meeting(&self) -> Option<Arc<Meeting>> {
        self.meeting.upgrade()
    }

    /// Reports in timeouts why this process accepts no connections; empty if it does.
    pub(super) fn set_accept_trouble(&self, why: &str) {
        self.meeting().inspect(|meeting| meeting.set_accept_trouble(why.to_owned()));
    }

    /// Starts to connect.
    pub(super) fn open(&mut self, net: &mut Net) {
        match self.id {
            Some(id) => {
                self.set_id(net, id);
                self.attach(net);
            }
            None => self.dial(net, None),
        }
    }

    fn set_id(&mut self, net: &mut Net, id: CommId) {
        self.id = Some(id);
        net.local_nodes.insert((id, self.rank), self.key);
        net.deferred.push_back(Deferred::Arrived(id));
        if let Some(meeting) = self.meeting() {
            meeting.set_id(id.number());
        }
    }

    fn is_away(&self, rank: u32) -> bool {
        self.standing.is_away(rank)
    }

    fn member_of(&self, rank: u32) -> Option<&Member> {
        if let Some(table) = &self.table {
            return table.members.get(rank as usize);
        }
        let mut above = std::iter::successors(parent(self.rank), |rank| parent(*rank));
        self.ancestors.get(above.position(|above| above == rank)?)
    }

    /// This rank joins a split.
    pub(super) fn record_split(&mut self, seq: u64) {
        // A gathering is no exchange, so it is not behind or ahead of a split.
        if !is_gathered(seq) {
            self.split = self.split.max(seq);
        }
    }

    /// The ranks that left before joining the split of exchange `seq`.
    pub(super) fn departed_before(&self, seq: u64) -> impl Iterator<Item = &Left> {
        self.standing.left().filter(move |left| left.misses_child(seq))
    }
}
