//! One rank's place in its communicator's tree: it passes on what is new, up and down.
//!
//! Ranks form a tree by their numbers. What a rank says travels along it to all others; each keeps
//! what somebody may lack, and two that become neighbours tell each other all of that. So it does
//! not matter which way anything comes, nor how often, and when a rank dies, those below it attach
//! to the next one above that lives, or else to the lowest that lives: always to a lower number, so
//! the ranks stay one tree.

mod backend;
mod bootstrap;
mod death;
mod dial;
mod end;
mod exchange;
mod probe;
mod standing;
mod tree;

use std::collections::BTreeMap;
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
use super::message::{Left, Member, Message, Table};
use super::proof::Secret;
use crate::control::{Meeting, SURVIVORS};

use dial::Dial;
use exchange::{Hold, Link};
use probe::Probe;
use standing::Standing;

/// What a new node is.
pub(super) struct Spec {
    pub(super) key: NodeKey,
    pub(super) meeting: Weak<Meeting>,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) member: Member,
    pub(super) secret: Secret,
    pub(super) meet: Meet,
    pub(super) seat: u64,
}

/// Where a node meets the others.
#[derive(Clone)]
pub(super) struct Meet {
    pub(super) id: CommId,
    /// Empty while it is not known.
    pub(super) addresses: Vec<SocketAddr>,
    /// As the user gave it.
    pub(super) name: String,
    /// What is found there may be another run's.
    pub(super) may_be_stale: bool,
    /// Whose process it is, as far as that is known.
    pub(super) host: Option<u32>,
    /// Whose name is known.
    pub(super) job: Option<Job>,
}

/// Why the ranks cannot be one communicator.
#[derive(Clone)]
pub(super) struct Failure {
    /// How many there were to be, as it is told.
    pub(super) size: u32,
    /// Those that the reason names.
    pub(super) ranks: Vec<u32>,
    pub(super) why: String,
}

impl Failure {
    pub(super) fn message(&self) -> Message<'_> {
        let Self { size, ranks, why } = self;
        Message::Fail { size: *size, ranks: ranks.clone(), why: why.into() }
    }
}

/// A place where the ranks meet that let go of a rank without a word.
struct Lost {
    since: Instant,
    reason: String,
}

/// A node of a part of the ranks of another.
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
    /// While the table is not known: the parent, its parent and so on.
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
    /// Splits for which the table is missing.
    pub(super) pending_children: Vec<ChildSpec>,
    /// The last split in which this rank took its place.
    split: u64,
    /// Those that have lost their way here.
    probes: BTreeMap<u32, Probe>,
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
            meet: Some(meet),
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
            pending_children: Vec::new(),
            split: 0,
            probes: BTreeMap::new(),
        }
    }

    /// The node of a split; the table of this one is known.
    pub(super) fn child(&mut self, spec: ChildSpec) -> Option<Self> {
        let ChildSpec { key, meeting, seq, color, rank, members } = spec;
        let table = self.table.as_ref()?;
        let own = table.members.get(self.rank as usize)?.clone();
        let part = members.iter().map(|rank| table.members.get(*rank as usize).cloned());
        let part = Table::new(part.collect::<Option<_>>()?);
        let (secret, size) = (self.secret.clone(), u32::try_from(members.len()).ok()?);
        let name = String::new();
        let meet = Meet {
            id: CommId::THERE,
            addresses: Vec::new(),
            name,
            may_be_stale: false,
            host: None,
            job: None,
        };
        let spec = Spec { key, meeting, rank, size, member: own, secret, meet, seat: 0 };
        let id = self.id?.child(seq, color);
        Some(Self { meet: None, id: Some(id), table: Some(Arc::new(part)), ..Self::new(spec) })
    }

    pub(super) fn key(&self) -> NodeKey {
        self.key
    }

    /// The ranks that have left, as far as this one knows.
    pub(super) fn departures(&self) -> impl Iterator<Item = &Left> {
        self.standing.left()
    }

    /// Whether a rank was taken for dead.
    pub(super) fn has_lost(&self, rank: u32) -> bool {
        self.standing.has_died(rank)
    }

    fn meeting(&self) -> Option<Arc<Meeting>> {
        self.meeting.upgrade()
    }

    /// What keeps the process from hearing others, for reports; nothing, if it is empty.
    pub(super) fn set_accept_trouble(&self, why: &str) {
        self.meeting().inspect(|meeting| meeting.set_accept_trouble(why.to_owned()));
    }

    /// Starts to look for the others.
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

    /// This rank takes its place in a split.
    pub(super) fn record_split(&mut self, seq: u64) {
        self.split = self.split.max(seq);
    }

    /// The ranks that have left, for those that were to come to a split of exchange `seq`.
    pub(super) fn departed_before(&self, seq: u64) -> impl Iterator<Item = &Left> {
        // One that is poisoned goes on with the survivors.
        let is_out = move |left: &&Left| left.gone || left.stopped && seq != SURVIVORS;
        self.standing.left().filter(is_out).filter(move |left| left.died || left.split < seq)
    }
}
