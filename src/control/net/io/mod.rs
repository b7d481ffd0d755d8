//! The thread that carries everything: it waits for connections, commands and times, and has the
//! nodes and the meeting places do what follows.

mod acceptor;
mod bytes;
mod commands;
mod net;
mod splits;
mod times;

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::conns::{Conns, FIRST, Key};
use super::hub::{Command, NodeKey};
use super::ident::CommId;
use super::node::Node;
use super::rendezvous::Rendezvous;
use crate::lock::Mutex;
use crate::quiet::Quiet;

use acceptor::Acceptor;
pub(super) use net::{After, Net, Over, Timer};
use splits::ChildOf;
pub(super) use times::TICK;

const WAKER: Token = Token(0);
const OWN_DOOR: Token = Token(1);

/// How much is read at a time.
const SCRATCH: usize = 1 << 16;

pub(super) struct Io {
    poll: Poll,
    commands: Receiver<Command>,
    net: Net,
    acceptors: HashMap<usize, Acceptor>,
    next_door: usize,
    most_unproven: usize,
    nodes: HashMap<NodeKey, Node>,
    meets: HashMap<CommId, Rendezvous>,
    children: HashMap<NodeKey, Vec<ChildOf>>,
    /// Processes that are known to be dead.
    dead: HashSet<u64>,
    /// What keeps this process from taking connections.
    hindrance: String,
    scratch: Vec<u8>,
    /// Who waits until everything is written.
    end: Option<Sender<()>>,
    /// When all connections were looked at last.
    ticked: Instant,
    /// When the others were last told that this process lives.
    breathed: Instant,
    /// When this thread was last seen to run.
    ran: Instant,
    /// Connections on which more has come than is read at a time.
    unread: Vec<Key>,
    went_on: WentOn,
}

/// When this process last went on after a stop that was longer than the others wait.
pub(super) type WentOn = Arc<Mutex<Option<Instant>>>;

impl Io {
    pub(super) fn new(
        poll: Poll,
        mut listener: TcpListener,
        commands: Receiver<Command>,
        beat: Duration,
    ) -> io::Result<Self> {
        poll.registry().register(&mut listener, OWN_DOOR, Interest::READABLE)?;
        let conns = Conns::new(poll.registry().try_clone()?, beat);
        Ok(Self {
            poll,
            commands,
            net: Net::new(conns),
            acceptors: [(OWN_DOOR.0, Acceptor { listener, meet: None })].into(),
            next_door: OWN_DOOR.0 + 1,
            most_unproven: acceptor::most_unproven(),
            nodes: HashMap::new(),
            meets: HashMap::new(),
            children: HashMap::new(),
            dead: HashSet::new(),
            hindrance: String::new(),
            scratch: vec![0; SCRATCH],
            end: None,
            ticked: Instant::now(),
            breathed: Instant::now(),
            ran: Instant::now(),
            unread: Vec::new(),
            went_on: WentOn::default(),
        })
    }

    pub(super) fn went_on(&self) -> WentOn {
        self.went_on.clone()
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
            let next = self.net.timers.next();
            let rest = match self.unread.is_empty() {
                true => next.map(|at| at.saturating_duration_since(Instant::now())),
                false => Some(Duration::ZERO),
            };
            if let Err(error) = self.poll.poll(&mut events, rest)
                && error.kind() != ErrorKind::Interrupted
            {
                log::error!("the control plane cannot wait for connections: {error}");
                std::thread::sleep(TICK);
            }
            self.breathe();
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(acceptor) if acceptor < FIRST => self.accept(acceptor),
                    Token(token) => self.ready(token - FIRST, event.is_writable()),
                }
                self.settle();
                self.breathe();
            }
            for key in std::mem::take(&mut self.unread) {
                self.ready(key, false);
                self.settle();
                self.breathe();
            }
            loop {
                match self.commands.try_recv() {
                    Ok(command) => self.command(command),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
                self.settle();
                self.breathe();
            }
            let now = Instant::now();
            while let Some(timer) = self.net.timers.due(now) {
                self.timer(timer);
                self.settle();
            }
            self.write();
        }
    }

    /// Says that this process lives, and all that there is to say, before the rest of what has come is
    /// heard. On a machine with too few processors that can take longer than the others wait.
    fn breathe(&mut self) {
        let now = Instant::now();
        // This thread wakes with every tick.
        let stopped = (self.net.conns.beat * 3).max(TICK * 3);
        if now - std::mem::replace(&mut self.ran, now) >= stopped {
            *self.went_on.lock() = Some(now);
            self.nodes.values_mut().for_each(Node::goes_on);
        }
        if now - self.breathed >= TICK {
            self.breathed = now;
            self.net.conns.beat(now);
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
                // Its last words may have come: one that leaves says so before its connection breaks.
                let serial = self.net.conns.serial(key);
                while self.hear(key) {}
                if serial.is_some() && serial == self.net.conns.serial(key) {
                    self.closed(key, &format!("its connection broke: {error}"));
                }
            }
            self.settle();
        }
        if self.end.is_some()
            && self.meets.is_empty()
            && self.net.conns.is_known()
            && let Some(end) = self.end.take()
        {
            // Whoever asked may not wait any more.
            let _ = end.send(());
        }
    }

    /// Has a node do something, if it is still there.
    fn at(&mut self, node: NodeKey, act: impl FnOnce(&mut Node, &mut Net)) {
        if let Some(node) = self.nodes.get_mut(&node) {
            act(node, &mut self.net);
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
}
