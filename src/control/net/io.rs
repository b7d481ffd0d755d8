//! The thread that carries everything: it waits for connections, commands and times, and has the
//! nodes and the meeting places do what follows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Weak;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::channels::{Call, Channels};
use super::conns::{Came, Conns, FIRST, Key, Role};
use super::frame;
use super::hub::{Command, NodeKey};
use super::ident::{self, CommId};
use super::message::{Left, Message, Table};
use super::node::{Node, is_refused};
use super::proof::{self, CHALLENGE, CLAIM, Claim, Purpose, VERDICT, Verdict, Version};
use super::rendezvous::Rendezvous;
use crate::quiet::Quiet;

/// How many connections may have proven nothing.
const MOST_UNPROVEN: usize = 1024;

/// How long one may: then it goes.
const UNPROVEN: Duration = Duration::from_secs(3);

/// How long the oldest has before it makes room for a new one.
const ROOM: Duration = Duration::from_millis(250);

/// How long this side waits for an answer to a connection that it makes.
const ANSWER: Duration = Duration::from_secs(3);

/// How long an end may take.
const ENDING: Duration = Duration::from_secs(5);

/// How often all connections are looked at.
const TICK: Duration = Duration::from_millis(250);

/// How much is read at a time.
const SCRATCH: usize = 1 << 16;

/// How many communicators that have ended are remembered.
const MOST_ENDED: usize = 1 << 13;

const WAKER: Token = Token(0);
const OWN_DOOR: Token = Token(1);

/// What nodes and meeting places work with.
pub(super) struct Net {
    pub(super) conns: Conns,
    pub(super) timers: Timers,
    /// What is to be done when nobody is in the middle of something.
    pub(super) after: VecDeque<After>,
    /// The nodes of this process that others find.
    pub(super) homes: BTreeMap<(CommId, u32), NodeKey>,
    pub(super) ended: Ended,
    pub(super) tables: HashMap<CommId, Weak<Table>>,
}

pub(super) enum After {
    /// A communicator's node is here: who waited for it is let in.
    Arrived(CommId),
    /// A node has the table.
    Table(NodeKey),
    /// A process is dead, in all communicators.
    Died {
        process: u64,
        why: String,
    },
    /// A rank has left, and does not come to a split either.
    LeftParent {
        node: NodeKey,
        left: Left,
    },
    Call(Call),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Flush(NodeKey),
    Dial(NodeKey),
    Expect(NodeKey),
    Tick,
    Accept(usize),
}

#[derive(Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Instant, Timer)>>);

impl Timers {
    pub(super) fn set(&mut self, at: Instant, timer: Timer) {
        self.0.push(Reverse((at, timer)));
    }

    fn due(&mut self, now: Instant) -> Option<Timer> {
        let due = self.0.peek().is_some_and(|Reverse((at, _))| *at <= now);
        due.then(|| self.0.pop()).flatten().map(|Reverse((_, timer))| timer)
    }

    fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}

/// Communicators that have ended here, the last ones.
#[derive(Default)]
pub(super) struct Ended {
    all: HashSet<(CommId, u32)>,
    order: VecDeque<(CommId, u32)>,
}

impl Ended {
    pub(super) fn add(&mut self, one: (CommId, u32)) {
        if self.all.insert(one) {
            self.order.push_back(one);
        }
        if self.order.len() > MOST_ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    fn contains(&self, one: (CommId, u32)) -> bool {
        self.all.contains(&one)
    }
}

/// A place where others connect.
struct Door {
    listener: TcpListener,
    /// Who meets behind it, for those who only know where.
    meet: Option<CommId>,
}

/// Where the ranks of a split of a node are.
struct ChildOf {
    node: NodeKey,
    seq: u64,
    members: Vec<u32>,
}

pub(super) struct Io {
    poll: Poll,
    commands: Receiver<Command>,
    net: Net,
    doors: HashMap<usize, Door>,
    next_door: usize,
    nodes: HashMap<NodeKey, Node>,
    meets: HashMap<CommId, Rendezvous>,
    children: HashMap<NodeKey, Vec<ChildOf>>,
    /// Processes that are known to be dead.
    dead: HashSet<u64>,
    scratch: Vec<u8>,
    /// Who waits until everything is written.
    end: Option<Sender<()>>,
    /// When all connections were looked at last.
    ticked: Instant,
}

impl Io {
    pub(super) fn new(
        poll: Poll,
        mut listener: TcpListener,
        commands: Receiver<Command>,
        beat: Duration,
    ) -> io::Result<Self> {
        poll.registry().register(&mut listener, OWN_DOOR, Interest::READABLE)?;
        let conns = Conns::new(poll.registry().try_clone()?, beat);
        let net = Net {
            conns,
            timers: Timers::default(),
            after: VecDeque::new(),
            homes: BTreeMap::new(),
            ended: Ended::default(),
            tables: HashMap::new(),
        };
        Ok(Self {
            poll,
            commands,
            net,
            doors: [(OWN_DOOR.0, Door { listener, meet: None })].into(),
            next_door: OWN_DOOR.0 + 1,
            nodes: HashMap::new(),
            meets: HashMap::new(),
            children: HashMap::new(),
            dead: HashSet::new(),
            scratch: vec![0; SCRATCH],
            end: None,
            ticked: Instant::now(),
        })
    }

    pub(super) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKER)
    }

    /// Until nobody can command any more.
    pub(super) fn run(mut self) {
        let _quiet = Quiet::enter();
        let mut events = Events::with_capacity(1024);
        self.net.timers.set(Instant::now() + TICK, Timer::Tick);
        loop {
            let rest =
                self.net.timers.next().map(|at| at.saturating_duration_since(Instant::now()));
            if let Err(error) = self.poll.poll(&mut events, rest)
                && error.kind() != ErrorKind::Interrupted
            {
                log::error!("the control plane cannot wait for connections: {error}");
                std::thread::sleep(TICK);
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(door) if door < FIRST => self.accept(door),
                    Token(token) => self.ready(token - FIRST, event.is_writable()),
                }
                self.settle();
            }
            loop {
                match self.commands.try_recv() {
                    Ok(command) => self.command(command),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
                self.settle();
            }
            let now = Instant::now();
            while let Some(timer) = self.net.timers.due(now) {
                self.timer(timer);
                self.settle();
            }
            self.write();
        }
    }

    fn write(&mut self) {
        loop {
            let broken = self.net.conns.write();
            if broken.is_empty() {
                break;
            }
            for (key, error) in broken {
                self.closed(key, &format!("its connection broke: {error}"));
            }
            self.settle();
        }
        if self.end.is_some()
            && self.net.conns.is_written()
            && let Some(end) = self.end.take()
        {
            // Whoever asked may not wait any more.
            let _ = end.send(());
        }
    }

    fn settle(&mut self) {
        while let Some(after) = self.net.after.pop_front() {
            match after {
                After::Arrived(id) => self.let_in(id),
                After::Table(node) => self.has_table(node),
                After::Died { process, why } => {
                    if self.dead.insert(process) {
                        for node in self.nodes.values_mut() {
                            node.died_elsewhere(&mut self.net, process, &why);
                        }
                    }
                }
                After::LeftParent { node, left } => self.left_parent(node, &left),
                After::Call(call) => call.make(),
            }
        }
    }

    // ---- Commands.

    fn command(&mut self, command: Command) {
        let net = &mut self.net;
        match command {
            Command::Open(spec) => {
                let (key, mut node) = (spec.key, Node::new(*spec));
                node.open(net);
                self.nodes.insert(key, node);
            }
            Command::Child { parent, child } => {
                let Some(node) = self.nodes.get_mut(&parent) else { return };
                node.splits(child.seq);
                node.unborn.push(*child);
                if node.table.is_some() {
                    self.has_table(parent);
                }
            }
            Command::Found { node, at, id, secret } => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.found(net, at, id, secret);
                }
            }
            Command::Meet { id, secret, door, owner } => self.meet(id, secret, door, owner),
            Command::Post { node, seq, said } => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.post(net, seq, said);
                }
            }
            Command::Leave { node, why, dropped } => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.leave(net, &why, dropped);
                }
            }
            Command::Tell { node, to, channel, bytes } => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    let from = node.rank;
                    node.pass_on(net, from, to.map(|to| to.0), channel, &bytes, None);
                }
            }
            Command::Listen { node, channel, listener } => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    let calls = node.channels.listen(channel, &listener);
                    net.after.extend(calls.into_iter().map(After::Call));
                    let gone = node.absent(u64::MAX);
                    let death = |left: &Left| Channels::death(&listener, left.rank, &left.why);
                    net.after.extend(gone.map(death).map(After::Call));
                }
            }
            #[cfg(test)]
            Command::Id { node, to } => {
                if let Some(id) = self.nodes.get(&node).and_then(|node| node.id) {
                    to.send(id).expect("the test waits");
                }
            }
            Command::Close(key) => self.close(key, false),
            Command::Kill(key) => self.close(key, true),
            Command::End(done) => {
                let why = "its process ended without `finish`";
                for (_, mut node) in self.nodes.drain() {
                    node.leave(net, why, false);
                    node.close(net);
                }
                self.end = Some(done);
            }
        }
    }

    fn meet(
        &mut self,
        id: CommId,
        secret: proof::Secret,
        door: Option<TcpListener>,
        owner: Option<NodeKey>,
    ) {
        if let Some(mut listener) = door {
            let token = self.next_door;
            self.next_door += 1;
            let registry = self.net.conns.registry();
            if let Err(error) = registry.register(&mut listener, Token(token), Interest::READABLE) {
                log::error!("the ranks cannot meet: {error}");
            }
            self.doors.insert(token, Door { listener, meet: Some(id) });
        }
        match ident::random() {
            Ok(comm) => {
                self.meets.insert(id, Rendezvous::new(id, CommId(comm), secret, owner));
            }
            Err(error) => log::error!("the ranks cannot meet: {error}"),
        }
    }

    fn close(&mut self, key: NodeKey, kill: bool) {
        let Some(mut node) = self.nodes.remove(&key) else { return };
        match kill {
            true => node.kill(&mut self.net),
            false => node.close(&mut self.net),
        }
        self.children.remove(&key);
        let owned = self.meets.values_mut().filter(|meet| meet.owner == Some(key));
        owned.for_each(Rendezvous::end);
        self.end_meets();
    }

    fn end_meets(&mut self) {
        let over: Vec<CommId> =
            self.meets.values().filter(|meet| meet.is_over()).map(|meet| meet.id).collect();
        for id in over {
            let guests = self
                .meets
                .remove(&id)
                .into_iter()
                .flat_map(|meet| meet.guests().collect::<Vec<_>>());
            for key in guests {
                self.net.conns.send(key, &Message::Bye);
                self.net.conns.end(key);
            }
            self.net.ended.add((id, u32::MAX));
            self.doors.retain(|_, door| door.meet != Some(id));
        }
    }

    // ---- Splits.

    fn has_table(&mut self, key: NodeKey) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let mut born = Vec::new();
        for spec in std::mem::take(&mut node.unborn) {
            let (child, seq, members) = (spec.key, spec.seq, spec.members.clone());
            let Some(new) = node.child(spec) else { continue };
            let gone: Vec<Left> = node.absent(seq).cloned().collect();
            born.push((new, gone, ChildOf { node: child, seq, members }));
        }
        for (mut new, gone, of) in born {
            new.open(&mut self.net);
            for left in gone {
                tell_child(&mut self.net, &mut new, &of, &left);
            }
            self.nodes.insert(of.node, new);
            let (after, child) = (&mut self.net.after, of.node);
            after.push_back(After::Table(child));
            self.children.entry(key).or_default().push(of);
        }
        if let Some(node) = self.nodes.get_mut(&key) {
            for process in &self.dead {
                node.died_elsewhere(&mut self.net, *process, "its process is gone");
            }
        }
    }

    fn left_parent(&mut self, key: NodeKey, left: &Left) {
        let Some(children) = self.children.get_mut(&key) else { return };
        children.retain(|of| self.nodes.contains_key(&of.node));
        for of in children.iter().filter(|of| left.died || left.split < of.seq) {
            if let Some(node) = self.nodes.get_mut(&of.node) {
                tell_child(&mut self.net, node, of, left);
            }
        }
    }

    // ---- Connections that others make.

    fn accept(&mut self, door: usize) {
        loop {
            let (count, oldest) = self.net.conns.unproven();
            if count >= MOST_UNPROVEN
                && let Some((oldest, since)) = oldest
            {
                if since.elapsed() < ROOM {
                    self.net.timers.set(since + ROOM, Timer::Accept(door));
                    return;
                }
                self.net.conns.remove(oldest);
            }
            let Some(Door { listener, meet }) = self.doors.get(&door) else { return };
            let (stream, meet) = match listener.accept() {
                Ok((stream, _)) => (stream, *meet),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    log::warn!("a connection is not taken: {error}");
                    return self.net.timers.set(Instant::now() + ROOM, Timer::Accept(door));
                }
            };
            let Ok(nonce) = ident::random() else { continue };
            let challenge = proof::challenge(nonce);
            match self.net.conns.add(stream, Role::Stranger { challenge, door: meet }) {
                Ok(key) => self.net.conns.send_raw(key, &challenge),
                Err(error) => log::debug!("a connection is not taken: {error}"),
            }
        }
    }

    /// Who waited for a communicator's node is let in.
    fn let_in(&mut self, id: CommId) {
        for key in self.net.conns.keys() {
            let Some(conn) = self.net.conns.get(key) else { continue };
            if let Role::Parked { challenge, claim, id: waits } = conn.role
                && waits == id
            {
                self.judge(key, &challenge, &claim, None);
            }
        }
    }

    /// Somebody claims to be one of us.
    fn judge(
        &mut self,
        key: Key,
        challenge: &[u8; CHALLENGE],
        claim: &[u8; CLAIM],
        door: Option<CommId>,
    ) {
        let Some(said) = Claim::read(claim) else {
            self.net.conns.remove(key);
            return;
        };
        let id = if said.id == CommId::THERE { door.unwrap_or(said.id) } else { said.id };
        let home = (id, if said.purpose == Purpose::Meet { u32::MAX } else { said.to });
        let node = self.net.homes.get(&home).and_then(|node| self.nodes.get_mut(node));
        let secret = match said.purpose {
            Purpose::Meet => self.meets.get(&id).map(|meet| &meet.secret),
            Purpose::Link { .. } => node.as_ref().map(|node| &node.secret),
        };
        let refuse = |net: &mut Net, secret, verdict| {
            net.conns.send_raw(key, &proof::judge(secret, challenge, claim, verdict));
            net.conns.end(key);
        };
        let Some(secret) = secret else {
            let was_here = self.net.ended.contains(home);
            return match (was_here, said.purpose) {
                (true, _) => refuse(&mut self.net, None, Verdict::Ended),
                (false, Purpose::Meet) => refuse(&mut self.net, None, Verdict::Unknown),
                (false, Purpose::Link { .. }) => {
                    if let Some(conn) = self.net.conns.get(key) {
                        conn.role = Role::Parked { challenge: *challenge, claim: *claim, id };
                    }
                }
            };
        };
        if !proof::is_proven(secret, challenge, claim) {
            log::warn!(
                "somebody who does not know the secret asked to take part as rank {}",
                said.from
            );
            return refuse(&mut self.net, None, Verdict::Unproven);
        }
        let secret = secret.clone();
        if said.version != Version::own() {
            if let Some(meet) = self.meets.get_mut(&id) {
                let why = format!(
                    "runs {}, and where the ranks meet it is {}: run one build on all ranks",
                    said.version,
                    Version::own()
                );
                meet.fail(&mut self.net.conns, vec![said.from], why);
            }
            return refuse(&mut self.net, Some(&secret), Verdict::OtherVersion);
        }
        let net = &mut self.net;
        let role = match (said.purpose, node) {
            (Purpose::Meet, _) => Role::Guest { meet: id },
            (Purpose::Link { .. }, Some(node)) => {
                if said.from >= node.size || said.from == node.rank {
                    net.conns.remove(key);
                    return;
                }
                if node.has_lost(said.from) {
                    return refuse(net, Some(&secret), Verdict::Dead);
                }
                Role::Link { node: node.key(), peer: said.from }
            }
            (Purpose::Link { .. }, None) => return,
        };
        net.conns.send_raw(key, &proof::judge(Some(&secret), challenge, claim, Verdict::Welcome));
        if let Some(conn) = net.conns.get(key) {
            conn.role = role;
        }
        if let (Purpose::Link { has_table }, Some(node)) =
            (said.purpose, net.homes.get(&home).and_then(|node| self.nodes.get_mut(node)))
        {
            node.linked(net, key, said.from, !has_table);
        }
    }

    // ---- What happens on connections.

    fn ready(&mut self, key: Key, writable: bool) {
        if writable {
            if !self.is_connected(key) {
                return;
            }
            self.net.conns.touch(key);
        }
        loop {
            match self.net.conns.read(key, &mut self.scratch) {
                Came::Nothing => return,
                Came::Bytes => self.input(key),
                Came::End(reason) => return self.closed(key, &reason),
            }
        }
    }

    /// Whether a connection stands; what this side asked for and did not get is given up.
    fn is_connected(&mut self, key: Key) -> bool {
        let Some(conn) = self.net.conns.get(key) else { return false };
        let Role::Dial { node, sent: None } = conn.role else { return true };
        match conn.connected() {
            Ok(is_connected) => is_connected,
            Err(error) => {
                self.net.conns.remove(key);
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.dial_failed(&mut self.net, &error.to_string(), is_refused(&error));
                }
                false
            }
        }
    }

    /// A connection has ended without a word.
    fn closed(&mut self, key: Key, reason: &str) {
        match self.net.conns.remove(key) {
            Some(Role::Dial { node, .. }) => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    let is_refused = reason.contains("refused");
                    node.dial_failed(&mut self.net, reason, is_refused);
                }
            }
            Some(Role::Guest { meet }) => {
                if let Some(meet) = self.meets.get_mut(&meet) {
                    meet.closed(&mut self.net.conns, key, reason);
                }
            }
            Some(Role::Visit { node } | Role::Link { node, .. }) => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.closed(&mut self.net, key, reason);
                }
            }
            Some(Role::Stranger { .. } | Role::Parked { .. } | Role::Ending) | None => {}
        }
    }

    /// Bytes have come.
    fn input(&mut self, key: Key) {
        let Some(conn) = self.net.conns.get(key) else { return };
        let mut input = std::mem::take(&mut conn.input);
        let mut used = 0;
        while let Some(conn) = self.net.conns.get(key) {
            let rest = &input[used..];
            let took = match &conn.role {
                Role::Stranger { challenge, door } => {
                    let (challenge, door) = (*challenge, *door);
                    rest.first_chunk::<CLAIM>().map(|claim| {
                        self.judge(key, &challenge, claim, door);
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
                Role::Ending => return,
                Role::Guest { .. } | Role::Visit { .. } | Role::Link { .. } => {
                    match self.frame(key, rest) {
                        Ok(took) => took,
                        Err(why) => {
                            let reason = format!("it sent what no rank sends: {why}");
                            return self.closed(key, &reason);
                        }
                    }
                }
            };
            match took {
                Some(took) => used += took,
                None => break,
            }
            self.settle();
        }
        if let Some(conn) = self.net.conns.get(key) {
            input.drain(..used);
            if input.is_empty() {
                input.shrink_to(SCRATCH);
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
        let claim = claim.prove(&node.secret, challenge, nonce);
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
            Role::Guest { .. } => frame::MOST_OF_GUESTS,
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
            Role::Visit { node } => match self.nodes.get_mut(&node) {
                Some(node) => node.visited(net, key, message),
                None => true,
            },
            Role::Guest { meet } => self.guest(key, meet, message),
            _ => true,
        };
        is_sane.then_some(Some(length)).ok_or_else(|| "a message out of place".to_owned())
    }

    fn guest(&mut self, key: Key, id: CommId, message: Message<'_>) -> bool {
        let conns = &mut self.net.conns;
        let Some(meet) = self.meets.get_mut(&id) else {
            conns.end(key);
            return true;
        };
        match message {
            Message::Hello(hello) => return meet.hello(conns, key, hello),
            Message::Linked => meet.linked(conns, key),
            Message::Left(left) => meet.left(conns, key, left),
            Message::Bye => meet.bye(conns, key),
            Message::Beat => {}
            _ => return false,
        }
        self.end_meets();
        true
    }

    // ---- Times.

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Flush(node) => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.flush(&mut self.net);
                }
            }
            Timer::Dial(node) => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.dial_again(&mut self.net);
                }
            }
            Timer::Expect(node) => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.missed(&mut self.net);
                }
            }
            Timer::Accept(door) => self.accept(door),
            Timer::Tick => self.tick(),
        }
    }

    fn tick(&mut self) {
        let (now, beat) = (Instant::now(), self.net.conns.beat);
        self.net.timers.set(now + TICK.min(beat / 4), Timer::Tick);
        // A thread that was held up has not read yet what others said meanwhile.
        let was_late = now - std::mem::replace(&mut self.ticked, now) > TICK * 2;
        for key in self.net.conns.keys() {
            let Some(conn) = self.net.conns.get(key) else { continue };
            if was_late {
                (conn.heard, conn.since) = (now, now);
            }
            let (age, silence) = (now - conn.since, now - conn.heard);
            match conn.role {
                Role::Stranger { .. } | Role::Parked { .. } if age >= UNPROVEN => {
                    self.net.conns.remove(key);
                }
                Role::Ending if age >= ENDING => {
                    self.net.conns.remove(key);
                }
                Role::Dial { sent: None, .. } if age >= ANSWER => {
                    self.closed(key, "it does not answer");
                }
                // The other side may have taken it already.
                Role::Dial { .. } if age >= ANSWER.max(beat * 3) => {
                    self.closed(key, "it does not answer")
                }
                Role::Guest { .. } | Role::Visit { .. } | Role::Link { .. } => {
                    if now - conn.told >= beat {
                        conn.told = now;
                        self.net.conns.send(key, &Message::Beat);
                    }
                    if silence >= beat * 3 {
                        self.closed(
                            key,
                            &format!("it has said nothing for {} s", silence.as_secs()),
                        );
                    }
                }
                _ => {}
            }
            self.settle();
        }
        self.meets.values_mut().for_each(|meet| meet.tick(&mut self.net.conns));
        self.end_meets();
        self.net.tables.retain(|_, table| table.strong_count() > 0);
    }
}

/// A rank that was to come to a split has left.
fn tell_child(net: &mut Net, child: &mut Node, of: &ChildOf, left: &Left) {
    if let Some(rank) = of.members.iter().position(|member| *member == left.rank) {
        let left = Left { rank: crate::Rank::at(rank).0, ..left.clone() };
        child.left(net, left, None);
    }
}
