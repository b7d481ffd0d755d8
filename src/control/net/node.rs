//! One rank's place in its communicator's tree: it passes on what is new, up and down.
//!
//! Ranks form a tree by their numbers. What a rank says travels along it to all others; each keeps
//! what somebody may lack, and two that become neighbours tell each other all of that. So it does not
//! matter which way anything comes, nor how often, and when a rank dies, those below it attach to the
//! next one above that lives, or else to the lowest that lives: always to a lower number, so the ranks
//! stay one tree.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use super::address;
use super::channels::Channels;
use super::conns::{Key, Role};
use super::hub::NodeKey;
use super::ident::{self, CommId};
use super::io::{After, Net, Timer};
use super::ledger::{FAN_OUT, Ledger, Run, Said, merge, parent};
use super::message::{Hello, Left, Member, Message, Part, Table, cut};
use super::proof::{Claim, Purpose, Secret, Verdict, Version};
use crate::Rank;
use crate::control::{FINISH, Meeting, Topic};
use crate::error::{Error, InitFailed, PeerFailed, Site};

/// How long parts of an exchange wait for more of them.
const HOLD: Duration = Duration::from_millis(2);

/// How long a rank that has lost its way to the others has to find a new one, beside the time until it
/// knows.
const EXPECTED: Duration = Duration::from_secs(3);

/// How often a rank that refuses connections is asked before it is taken for dead.
const REFUSALS: u32 = 3;

/// How long a rest between two attempts is at least and at most.
const RESTS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// How much goes into one frame of parts, unless one part is longer.
const FRAME: usize = 1 << 20;

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
    seat: u64,
    pub(super) id: Option<CommId>,
    pub(super) table: Option<Arc<Table>>,
    /// While the table is not known: the parent, its parent and so on.
    ancestors: Vec<Member>,
    ledger: Ledger,
    left: BTreeMap<u32, Left>,
    /// Those that ended regularly, as their neighbours know.
    away: BTreeSet<u32>,
    failed: Option<(Vec<u32>, String)>,
    up: Option<Key>,
    visit: Option<Key>,
    dial: Option<Dial>,
    links: Vec<Link>,
    is_held: bool,
    pub(super) channels: Channels,
    /// Splits for which the table is missing.
    pub(super) unborn: Vec<ChildSpec>,
    /// The last split in which this rank took its place.
    split: u64,
}

struct Link {
    key: Key,
    peer: u32,
    pending: Vec<Run>,
    /// The other side knows that it stands.
    is_sure: bool,
}

/// A connection that this node tries to make.
struct Dial {
    /// A rank, or where the ranks meet.
    to: Option<u32>,
    key: Option<Key>,
    address: Option<SocketAddr>,
    tried: u32,
    refused: u32,
    /// Since when nobody has answered.
    since: Instant,
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
            seat,
            id: None,
            table: None,
            ancestors: Vec::new(),
            ledger: Ledger::new(rank, size),
            left: BTreeMap::new(),
            away: BTreeSet::new(),
            failed: None,
            up: None,
            visit: None,
            dial: None,
            links: Vec::new(),
            is_held: false,
            channels: Channels::default(),
            unborn: Vec::new(),
            split: 0,
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
        let meet = Meet { id: CommId::THERE, addresses: Vec::new(), name, may_be_stale: false };
        let spec = Spec { key, meeting, rank, size, member: own, secret, meet, seat: 0 };
        let id = self.id?.child(seq, color);
        Some(Self { meet: None, id: Some(id), table: Some(Arc::new(part)), ..Self::new(spec) })
    }

    pub(super) fn key(&self) -> NodeKey {
        self.key
    }

    /// Whether a rank was taken for dead.
    pub(super) fn has_lost(&self, rank: u32) -> bool {
        self.left.get(&rank).is_some_and(|left| left.died)
    }

    fn meeting(&self) -> Option<Arc<Meeting>> {
        self.meeting.upgrade()
    }

    /// Starts to look for the others.
    pub(super) fn open(&mut self, net: &mut Net) {
        match self.id {
            Some(id) => {
                self.has_id(net, id);
                self.climb(net);
            }
            None => self.dial(net, None),
        }
    }

    fn has_id(&mut self, net: &mut Net, id: CommId) {
        self.id = Some(id);
        net.homes.insert((id, self.rank), self.key);
        net.after.push_back(After::Arrived(id));
        if let Some(meeting) = self.meeting() {
            meeting.open(id.number());
        }
    }

    /// Where the ranks meet is known, or known better.
    pub(super) fn found(
        &mut self,
        net: &mut Net,
        at: Vec<SocketAddr>,
        id: CommId,
        secret: Option<Secret>,
    ) {
        let Some(meet) = &mut self.meet else { return };
        (meet.addresses, meet.id) = (at, id);
        if let Some(secret) = secret {
            self.secret = secret;
        }
        if self.id.is_none() && self.visit.is_none() && self.dial.is_none() {
            self.dial(net, None);
        }
    }

    // ---- Connections that this node makes.

    /// Looks for the next rank above.
    fn climb(&mut self, net: &mut Net) {
        self.up = None;
        if let Some(dial) = self.dial.take()
            && let Some(key) = dial.key
        {
            net.conns.remove(key);
        }
        if let Some(above) = self.above() {
            self.dial(net, Some(above));
        } else {
            // Nobody is above: this is the root.
            self.has_place(net);
        }
    }

    fn above(&self) -> Option<u32> {
        self.above_of(self.rank)
    }

    /// The rank that another attaches to, as far as this one knows.
    fn above_of(&self, rank: u32) -> Option<u32> {
        let is_here = |rank: &u32| !self.is_away(*rank);
        let mut above = std::iter::successors(parent(rank), |rank| parent(*rank));
        above.find(is_here).or_else(|| (0..rank).find(is_here))
    }

    /// A rank is away: those below it look for a new way, and this one may be it.
    fn expect(&self, net: &mut Net) {
        net.timers.set(Instant::now() + net.conns.beat + EXPECTED, Timer::Expect(self.key));
    }

    /// Who should have attached to this rank and did not is dead: nobody else would notice.
    pub(super) fn missed(&mut self, net: &mut Net) {
        let own = std::iter::once(&self.rank);
        let away =
            self.left.keys().chain(&self.away).filter(|rank| self.is_away(**rank)).chain(own);
        let below = |rank: &u32| {
            let first = u64::from(*rank) * u64::from(FAN_OUT) + 1;
            first..(first + u64::from(FAN_OUT)).min(self.size.into())
        };
        let orphans = away.flat_map(below).filter_map(|rank| u32::try_from(rank).ok());
        let is_linked = |rank: u32| self.links.iter().any(|link| link.peer == rank);
        let is_missed = |rank: &u32| {
            // One that has said nothing may be yet to come.
            *rank != self.rank
                && self.ledger.last_of(*rank).is_some()
                && !self.is_away(*rank)
                && !is_linked(*rank)
                && self.above_of(*rank) == Some(self.rank)
        };
        let missed: BTreeSet<u32> = orphans.filter(is_missed).collect();
        if self.ledger.is_over(FINISH) {
            return;
        }
        for rank in missed {
            self.death(net, rank, "it has not come back after the rank above it had left");
        }
    }

    fn is_away(&self, rank: u32) -> bool {
        self.away.contains(&rank) || self.left.get(&rank).is_some_and(|left| left.gone)
    }

    fn member_of(&self, rank: u32) -> Option<&Member> {
        if let Some(table) = &self.table {
            return table.members.get(rank as usize);
        }
        let mut above = std::iter::successors(parent(self.rank), |rank| parent(*rank));
        self.ancestors.get(above.position(|above| above == rank)?)
    }

    fn dial(&mut self, net: &mut Net, to: Option<u32>) {
        let (key, address, since) = (None, None, Instant::now());
        self.dial = Some(Dial { to, key, address, tried: 0, refused: 0, since });
        self.dial_again(net);
    }

    pub(super) fn dial_again(&mut self, net: &mut Net) {
        let Some(Dial { to, key: None, tried, .. }) = self.dial else { return };
        let addresses = match to {
            None => self.meet.as_ref().map(|meet| meet.addresses.clone()).unwrap_or_default(),
            Some(rank) => self.addresses_of(rank),
        };
        if addresses.is_empty() {
            // It is tried when there are some.
            self.dial = None;
            return;
        }
        let address = addresses[tried as usize % addresses.len()];
        let outcome = TcpStream::connect(address)
            .and_then(|stream| net.conns.add(stream, Role::Dial { node: self.key, sent: None }));
        if let Some(dial) = &mut self.dial {
            dial.address = Some(address);
            dial.tried += 1;
            match outcome {
                Ok(key) => dial.key = Some(key),
                Err(error) => self.dial_failed(net, &error.to_string(), is_refused(&error)),
            }
        }
    }

    fn addresses_of(&self, rank: u32) -> Vec<SocketAddr> {
        let Some(member) = self.member_of(rank) else { return Vec::new() };
        let is_near = member.host_number == self.member.host_number;
        let mut all = member.addresses.clone();
        all.retain(|address| is_near || !address::plain(*address).ip().is_loopback());
        all
    }

    /// A connection could not be made.
    pub(super) fn dial_failed(&mut self, net: &mut Net, why: &str, is_refused: bool) {
        let Some(dial) = &mut self.dial else { return };
        dial.key = None;
        dial.refused = if is_refused { dial.refused + 1 } else { 0 };
        let (to, tried, refused, waited) =
            (dial.to, dial.tried, dial.refused, dial.since.elapsed());
        let at = dial.address.map_or_else(String::new, |address| address.to_string());
        let ways = match to {
            Some(rank) => self.addresses_of(rank).len(),
            None => self.meet.as_ref().map_or(1, |meet| meet.addresses.len()),
        };
        let ways = u32::try_from(ways).unwrap_or(1).max(1);
        match to {
            None => {
                let name = self.meet.as_ref().map_or("", |meet| &meet.name);
                let trouble = format!(
                    "the place where the ranks meet, {name}, cannot be reached at {at}: {why}"
                );
                self.meeting().inspect(|meeting| meeting.trouble(trouble));
            }
            Some(rank) if refused >= REFUSALS * ways || waited >= net.conns.beat * 3 => {
                let why = format!("rank {} cannot connect to it at {at}: {why}", self.rank);
                self.dial = None;
                self.death(net, rank, &why);
                return self.climb(net);
            }
            Some(_) => {}
        }
        // It rests when it has tried all.
        let rest =
            if tried % ways == 0 { RESTS.0 * (1 << (tried / ways).min(5)) } else { Duration::ZERO };
        net.timers.set(Instant::now() + rest.min(RESTS.1), Timer::Dial(self.key));
    }

    /// What to claim on a connection that this node makes.
    pub(super) fn claim(&self) -> Option<Claim> {
        let (version, from) = (Version::own(), self.rank);
        match self.dial.as_ref()?.to {
            None => {
                let id = self.meet.as_ref()?.id;
                Some(Claim { version, id, purpose: Purpose::Meet, from, to: 0 })
            }
            Some(to) => {
                let purpose = Purpose::Link { has_table: self.table.is_some() };
                Some(Claim { version, id: self.id?, purpose, from, to })
            }
        }
    }

    /// How the other side took the claim; the role of the connection, if it stands.
    pub(super) fn judged(
        &mut self,
        net: &mut Net,
        key: Key,
        verdict: Option<Verdict>,
        other: Version,
    ) -> Option<Role> {
        let to = self.dial.as_ref()?.to;
        match (verdict, to) {
            (Some(Verdict::Welcome), None) => {
                self.dial = None;
                self.visit = Some(key);
                self.hello(net, key);
                return Some(Role::Visit { node: self.key });
            }
            (Some(Verdict::Welcome), Some(peer)) => {
                self.dial = None;
                self.up = Some(key);
                return Some(Role::Link { node: self.key, peer });
            }
            (Some(Verdict::OtherVersion), _) => {
                let ranks = vec![self.rank];
                let why = format!(
                    "runs {}, and where the ranks meet it is {other}: run one build on all ranks",
                    Version::own()
                );
                self.fail(net, ranks, why, None);
            }
            (Some(Verdict::Unproven) | None, None) if !self.may_be_stale() => {
                let ranks = vec![self.rank];
                let why = "does not know the secret of the others: give TYPED_NCCL_SECRET the same text on all ranks".to_owned();
                self.fail(net, ranks, why, None);
            }
            (Some(Verdict::Dead), _) => self.taken_for_dead(),
            (Some(Verdict::Ended), Some(peer)) => {
                self.away.insert(peer);
                net.conns.remove(key);
                self.dial = None;
                self.climb(net);
                return None;
            }
            (Some(Verdict::Ended), None) if !self.may_be_stale() => {
                let why = "come to a meeting that has been held: an id serves one communicator"
                    .to_owned();
                self.fail(net, vec![self.rank], why, None);
            }
            (Some(Verdict::Unknown), _) => {
                if let Some(dial) = &mut self.dial {
                    dial.since = Instant::now();
                }
                self.dial_failed(net, "the rank is not there yet", false);
            }
            (Some(Verdict::Ended), None) => {
                self.dial_failed(net, "an earlier run has met there", false)
            }
            (Some(Verdict::Unproven) | None, _) => {
                self.dial_failed(net, "what listens there does not know the secret", false);
            }
        }
        None
    }

    fn may_be_stale(&self) -> bool {
        self.meet.as_ref().is_some_and(|meet| meet.may_be_stale)
    }

    fn hello(&self, net: &mut Net, key: Key) {
        let hello = Hello {
            rank: self.rank,
            size: self.size,
            seat: self.seat,
            version: env!("CARGO_PKG_VERSION").into(),
            job: ident::job().into(),
            member: self.member.clone(),
        };
        net.conns.send(key, &Message::Hello(hello));
    }

    // ---- What comes from where the ranks meet.

    /// A message from there; false if it makes no sense.
    pub(super) fn visited(&mut self, net: &mut Net, key: Key, message: Message<'_>) -> bool {
        match message {
            Message::Welcome { id, ancestors } => {
                if self.id.is_none() && ancestors.iter().all(Member::is_bounded) {
                    self.ancestors = ancestors;
                    self.has_id(net, id);
                    self.climb(net);
                }
            }
            Message::Later(rest) => {
                self.visit = None;
                net.conns.end(key);
                let (key, address, since) = (None, None, Instant::now());
                self.dial = Some(Dial { to: None, key, address, tried: 0, refused: 0, since });
                let rest = Duration::from_millis(rest.min(10_000).into());
                net.timers.set(since + rest, Timer::Dial(self.key));
            }
            Message::Table(bytes) => {
                let is_table = self.has_table(net, bytes, None);
                self.has_place(net);
                return is_table;
            }
            Message::Fail { ranks, why } => self.fail(net, ranks, why.into_owned(), None),
            Message::Missing { count, ranks } => self.missing(net, count, ranks, None),
            Message::Left(left) => return self.left(net, left, None),
            Message::Beat => {}
            Message::Bye => {
                self.visit = None;
                net.conns.end(key);
            }
            _ => return false,
        }
        true
    }

    /// This node is where it belongs; the root when it has the table.
    fn has_place(&mut self, net: &mut Net) {
        if self.rank == 0 && self.table.is_none() {
            return;
        }
        if let Some(visit) = self.visit.take() {
            net.conns.send(visit, &Message::Linked);
            net.conns.end(visit);
        }
    }

    fn has_table(&mut self, net: &mut Net, bytes: &[u8], from: Option<Key>) -> bool {
        if self.table.is_some() {
            return true;
        }
        let known = self.id.and_then(|id| net.tables.get(&id)).and_then(Weak::upgrade);
        let table = known.filter(|table| *table.bytes == *bytes);
        let Some(table) = table.or_else(|| Table::decode(bytes, self.size).map(Arc::new)) else {
            return false;
        };
        if let Some(id) = self.id {
            net.tables.insert(id, Arc::downgrade(&table));
        }
        for link in self.links.iter().filter(|link| Some(link.key) != from) {
            net.conns.send(link.key, &Message::Table(&table.bytes));
        }
        self.table = Some(table);
        net.after.push_back(After::Table(self.key));
        true
    }

    // ---- The tree.

    /// A neighbour is there.
    pub(super) fn linked(&mut self, net: &mut Net, key: Key, peer: u32, lacks_table: bool) {
        // A rank that comes again has lost its old connection.
        if let Some(old) = self.links.iter().position(|link| link.peer == peer) {
            net.conns.remove(self.links.swap_remove(old).key);
        }
        if let Some(table) = self.table.as_ref().filter(|_| lacks_table) {
            net.conns.send(key, &Message::Table(&table.bytes));
        }
        if let Some((ranks, why)) = &self.failed {
            net.conns.send(key, &Message::Fail { ranks: ranks.clone(), why: why.into() });
        }
        let is_up = self.up == Some(key);
        if is_up {
            // So that the other side knows that this one has its verdict.
            net.conns.send(key, &Message::Beat);
        }
        let pending = self.ledger.runs().collect();
        let mut link = Link { key, peer, pending, is_sure: is_up };
        link.flush(net);
        for left in self.left.values() {
            net.conns.send(key, &Message::Left(left.clone()));
        }
        self.links.push(link);
        if is_up {
            self.has_place(net);
        }
    }

    /// A message of a neighbour; false if it makes no sense.
    pub(super) fn heard(
        &mut self,
        net: &mut Net,
        key: Key,
        peer: u32,
        message: Message<'_>,
    ) -> bool {
        if let Some(link) = self.links.iter_mut().find(|link| link.key == key) {
            link.is_sure = true;
        }
        match message {
            Message::Parts { seq, topic, site, parts } => {
                let topic = super::topics::known(topic);
                return self.parts(net, key, seq, (topic, site), parts);
            }
            Message::Left(left) => return self.left(net, left, Some(key)),
            Message::Tell { from, to, channel, bytes } => {
                if from >= self.size || to.is_some_and(|to| to >= self.size) || from == self.rank {
                    return false;
                }
                self.pass_on(net, from, to, channel, bytes, Some(key));
            }
            Message::Table(bytes) => return self.has_table(net, bytes, Some(key)),
            Message::Fail { ranks, why } => self.fail(net, ranks, why.into_owned(), Some(key)),
            Message::Missing { count, ranks } => self.missing(net, count, ranks, Some(key)),
            Message::Beat => {}
            Message::Bye => self.bye(net, key, peer),
            Message::Hello(_) | Message::Welcome { .. } | Message::Later(_) | Message::Linked => {
                return false;
            }
        }
        true
    }

    fn parts(
        &mut self,
        net: &mut Net,
        key: Key,
        seq: u64,
        (topic, site): (Topic, Site),
        parts: Vec<Part<'_>>,
    ) -> bool {
        let mut news = Vec::new();
        for Part { first, last, bytes } in parts {
            let said = Arc::new(Said { topic, site, bytes: bytes.into() });
            match self.ledger.add(&Run { seq, first, last, said }) {
                Ok(new) => news.extend(new),
                Err(_) => return false,
            }
        }
        if let Some(meeting) = self.meeting() {
            meeting.hear(seq, &news);
        }
        self.spread(net, news, Some(key));
        true
    }

    /// This rank's part of an exchange.
    pub(super) fn post(&mut self, net: &mut Net, seq: u64, said: Said) {
        let (first, last) = (self.rank, self.rank);
        match self.ledger.add(&Run { seq, first, last, said: Arc::new(said) }) {
            Ok(new) => self.spread(net, new, None),
            Err(_) => log::error!("rank {} is too far ahead of the others", self.rank),
        }
    }

    fn spread(&mut self, net: &mut Net, new: Vec<Run>, from: Option<Key>) {
        let Some(seq) = new.first().map(|run| run.seq) else { return };
        for link in self.links.iter_mut().filter(|link| Some(link.key) != from) {
            link.pending.extend(new.iter().cloned());
        }
        let (all, below) = (self.ledger.is_complete(seq), self.ledger.is_complete_below(seq));
        if all || below {
            let is_due = |link: &&mut Link| all || Some(link.key) == self.up;
            self.links.iter_mut().filter(is_due).for_each(|link| link.flush(net));
        }
        if !all && !self.is_held {
            self.is_held = true;
            net.timers.set(Instant::now() + HOLD, Timer::Flush(self.key));
        }
    }

    /// What waited for more has waited long enough.
    pub(super) fn flush(&mut self, net: &mut Net) {
        self.is_held = false;
        self.links.iter_mut().for_each(|link| link.flush(net));
    }

    /// A message of a backend, of this rank or another.
    pub(super) fn pass_on(
        &mut self,
        net: &mut Net,
        from: u32,
        to: Option<u32>,
        channel: u64,
        bytes: &[u8],
        by: Option<Key>,
    ) {
        if from != self.rank && to.is_none_or(|to| to == self.rank) {
            match self.channels.came(channel, from, bytes) {
                Ok(call) => net.after.extend(call.map(After::Call)),
                Err(_) => {
                    let why = "sent more messages than are kept for a rank that is not there yet";
                    self.fail(net, vec![from], why.to_owned(), None);
                }
            }
        }
        if to == Some(self.rank) {
            return;
        }
        let message = Message::Tell { from, to, channel, bytes };
        // While nobody has left, a rank is where its number says.
        let way = to.filter(|_| self.left.is_empty()).and_then(|to| self.way_to(to));
        for link in self.links.iter().filter(|link| Some(link.key) != by) {
            if way.is_none_or(|way| way == link.key) {
                net.conns.send(link.key, &message);
            }
        }
    }

    fn way_to(&self, to: u32) -> Option<Key> {
        let mut way = std::iter::successors(Some(to), |rank| parent(*rank));
        let below = way.find(|rank| parent(*rank) == Some(self.rank));
        match below {
            Some(child) => self.links.iter().find(|link| link.peer == child).map(|link| link.key),
            None => self.up,
        }
    }

    /// The ranks cannot be one communicator.
    pub(super) fn fail(&mut self, net: &mut Net, ranks: Vec<u32>, why: String, from: Option<Key>) {
        if self.failed.is_some()
            || ranks.iter().any(|rank| *rank >= self.size.max(1)) && self.id.is_some()
        {
            return;
        }
        for link in self.links.iter().filter(|link| Some(link.key) != from) {
            net.conns.send(link.key, &Message::Fail { ranks: ranks.clone(), why: (&why).into() });
        }
        let named = ranks.iter().copied().map(Rank).collect();
        let error = InitFailed { size: self.size as usize, ranks: named, why: why.clone() };
        if let Some(meeting) = self.meeting() {
            meeting.break_with(Error::InitFailed(Box::new(error)));
        }
        self.failed = Some((ranks, why));
    }

    fn missing(&mut self, net: &mut Net, count: u32, ranks: Vec<u32>, from: Option<Key>) {
        let message = Message::Missing { count, ranks };
        for link in self.links.iter().filter(|link| Some(link.key) != from) {
            net.conns.send(link.key, &message);
        }
        let Message::Missing { ranks, .. } = message else { return };
        let named: Vec<String> = ranks.iter().take(16).map(u32::to_string).collect();
        let more = if (count as usize) > named.len() { " and others" } else { "" };
        let trouble =
            format!("{count} of {} ranks have not come: {}{more}", self.size, named.join(", "));
        self.meeting().inspect(|meeting| meeting.trouble(trouble));
    }

    // ---- Ends.

    /// A neighbour's connection is gone without a word.
    pub(super) fn closed(&mut self, net: &mut Net, key: Key, reason: &str) {
        if self.visit == Some(key) {
            self.visit = None;
            if self.up.is_none() && self.failed.is_none() {
                self.id = None;
                self.dial(net, None);
            }
            return;
        }
        let Some(at) = self.links.iter().position(|link| link.key == key) else { return };
        let Link { peer, is_sure, .. } = self.links.swap_remove(at);
        let was_up = self.up == Some(key);
        // One that has not heard of its place may have given this connection up, and come again.
        if is_sure {
            self.death(net, peer, reason);
        } else {
            self.expect(net);
        }
        if was_up {
            self.climb(net);
        }
    }

    /// A rank is dead, as this one found out.
    pub(super) fn death(&mut self, net: &mut Net, rank: u32, reason: &str) {
        let place = self.member_of(rank).map_or_else(String::new, |member| format!(" ({member})"));
        let last = match self.ledger.last_of(rank) {
            Some(said) => format!("; its last host-side call was {} at {}", said.topic, said.site),
            None => String::new(),
        };
        let why = format!("its process is gone{place}: {reason}{last}");
        self.left(net, Left { rank, why, dropped: false, gone: true, died: true, split: 0 }, None);
    }

    /// The process of a rank is dead, as this one learned from another communicator.
    pub(super) fn died_elsewhere(&mut self, net: &mut Net, process: u64, why: &str) {
        let Some(table) = self.table.clone().filter(|_| self.member.process != process) else {
            return;
        };
        for (rank, member) in table.members.iter().enumerate() {
            let rank = Rank::at(rank).0;
            if member.process == process && rank != self.rank && !self.is_away(rank) {
                let why = why.to_owned();
                self.left(
                    net,
                    Left { rank, why, dropped: false, gone: true, died: true, split: 0 },
                    None,
                );
            }
        }
    }

    /// A rank has left; false if there is no such rank.
    pub(super) fn left(&mut self, net: &mut Net, mut left: Left, from: Option<Key>) -> bool {
        if left.rank >= self.size {
            return false;
        }
        left.why.truncate(cut(&left.why).len());
        let known = self.left.get(&left.rank);
        if known.is_some_and(|known| (known.gone || !left.gone) && (known.dropped || !left.dropped))
        {
            return true;
        }
        let merged = match known {
            Some(known) => Left {
                why: known.why.clone(),
                dropped: known.dropped | left.dropped,
                ..left.clone()
            },
            None => left.clone(),
        };
        self.left.insert(left.rank, merged);
        if left.rank == self.rank {
            self.taken_for_dead();
        } else if let Some(meeting) = self.meeting() {
            meeting.hear_left(&left);
        }
        // What it said goes before the news that it left.
        for link in self.links.iter_mut().filter(|link| Some(link.key) != from) {
            link.flush(net);
            net.conns.send(link.key, &Message::Left(left.clone()));
        }
        if left.gone {
            self.is_gone(net, &left);
        }
        true
    }

    fn is_gone(&mut self, net: &mut Net, left: &Left) {
        net.after.extend(self.channels.died(left.rank, &left.why).into_iter().map(After::Call));
        self.expect(net);
        if left.died {
            if let Some(at) = self.links.iter().position(|link| link.peer == left.rank) {
                let key = self.links.swap_remove(at).key;
                net.conns.end(key);
                if self.up == Some(key) {
                    self.climb(net);
                }
            }
            if let Some(process) = self.member_of(left.rank).map(|member| member.process) {
                net.after.push_back(After::Died { process, why: left.why.clone() });
            }
        }
        net.after.push_back(After::LeftParent { node: self.key, left: left.clone() });
        if self.dial.as_ref().is_some_and(|dial| dial.to == Some(left.rank)) {
            self.climb(net);
        }
    }

    /// This rank leaves.
    pub(super) fn leave(&mut self, net: &mut Net, why: &str, dropped: bool) {
        let (rank, why) = (self.rank, cut(why).to_owned());
        let left = Left { rank, why, dropped, gone: !dropped, died: false, split: self.split };
        let merged = match self.left.get(&rank) {
            Some(known) => {
                Left { why: known.why.clone(), dropped: known.dropped | dropped, ..left.clone() }
            }
            None => left.clone(),
        };
        self.left.insert(rank, merged);
        for link in &mut self.links {
            link.flush(net);
            net.conns.send(link.key, &Message::Left(left.clone()));
        }
        if let Some(visit) = self.visit {
            net.conns.send(visit, &Message::Left(left));
        }
    }

    fn taken_for_dead(&self) {
        let why = "the others lost the connection to this rank, and took its process for dead";
        let failed = PeerFailed::new(
            "this communicator",
            &[(Rank(self.rank), why)],
            "a host-side call".to_owned(),
        );
        if let Some(meeting) = self.meeting() {
            meeting.break_with(Error::PeerFailed(Box::new(failed)));
        }
    }

    /// A neighbour has ended, and has said all that it had to say.
    fn bye(&mut self, net: &mut Net, key: Key, peer: u32) {
        net.conns.end(key);
        self.links.retain(|link| link.key != key);
        self.away.insert(peer);
        let was_up = self.up.take_if(|up| *up == key).is_some();
        let is_over = self.ledger.is_over(FINISH);
        let said = self.ledger.last_of(peer).is_some_and(|said| said.topic == FINISH);
        if !said && !is_over && !self.left.get(&peer).is_some_and(|left| left.gone) {
            let why = "its communicator has ended".to_owned();
            let (rank, split) = (peer, u64::MAX);
            self.left(
                net,
                Left { rank, why, dropped: false, gone: true, died: false, split },
                None,
            );
        }
        if is_over {
            return;
        }
        self.expect(net);
        if was_up {
            self.climb(net);
        }
    }

    /// This rank is done with its communicator: it says so and goes.
    pub(super) fn close(&mut self, net: &mut Net) {
        for link in &mut self.links {
            link.flush(net);
            net.conns.send(link.key, &Message::Bye);
            net.conns.end(link.key);
        }
        if let Some(visit) = self.visit.take() {
            net.conns.send(visit, &Message::Bye);
            net.conns.end(visit);
        }
        self.links.clear();
        self.forget(net);
    }

    /// Its connections are cut, as if its process were killed.
    pub(super) fn kill(&mut self, net: &mut Net) {
        for key in self.links.drain(..).map(|link| link.key).chain(self.visit.take()) {
            net.conns.remove(key);
        }
        self.forget(net);
    }

    fn forget(&mut self, net: &mut Net) {
        if let Some(key) = self.dial.take().and_then(|dial| dial.key) {
            net.conns.remove(key);
        }
        if let Some(id) = self.id {
            net.homes.remove(&(id, self.rank));
            net.ended.add((id, self.rank));
        }
    }

    // ---- Splits.

    /// This rank takes its place in a split.
    pub(super) fn splits(&mut self, seq: u64) {
        self.split = self.split.max(seq);
    }

    /// The ranks that have left, for those that were to come to a split of exchange `seq`.
    pub(super) fn absent(&self, seq: u64) -> impl Iterator<Item = &Left> {
        self.left.values().filter(move |left| left.gone && (left.died || left.split < seq))
    }
}

impl Link {
    fn flush(&mut self, net: &mut Net) {
        merge(&mut self.pending);
        let is_one = |a: &Run, b: &Run| {
            (a.seq, a.said.topic, a.said.site) == (b.seq, b.said.topic, b.said.site)
        };
        for runs in self.pending.chunk_by(is_one) {
            let Some(Run { seq, said, .. }) = runs.first() else { continue };
            let Said { topic, site, .. } = **said;
            let mut rest = runs;
            while !rest.is_empty() {
                let mut length = 0;
                let fits = |run: &&Run| {
                    length += run.said.bytes.len();
                    length <= FRAME
                };
                let count = rest.iter().take_while(fits).count().max(1);
                let (now, later) = rest.split_at(count);
                let part = |run| {
                    let Run { first, last, said, .. }: &Run = run;
                    Part { first: *first, last: *last, bytes: &said.bytes }
                };
                let parts = now.iter().map(part).collect();
                net.conns.send(self.key, &Message::Parts { seq: *seq, topic, site, parts });
                rest = later;
            }
        }
        self.pending.clear();
    }
}

pub(super) fn is_refused(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}
