//! A network in memory, with a clock of its own: endpoints, what is on its way between them, and
//! what goes wrong.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::super::conns::{Action, ConnectError, Key, Role};
use super::super::endpoint::{Endpoint, OWN_ACCEPTOR, Tables};
use super::super::fuzz::Dice;
use super::super::hub::{Ask, Hub};

const PORT: u16 = 1;

/// How many connections may have proven nothing.
const MOST_UNPROVEN: usize = 1024;

/// How long something is on its way, in microseconds: mostly, and now and then.
const DELAYS: (usize, usize) = (1000, 40_000);

/// Which process, from 0.
pub(super) type Number = usize;

/// A connection between two processes: the side that asked for it is the first.
struct Pipe {
    ends: [End; 2],
    /// What was on its way is lost.
    is_broken: bool,
    /// What somebody does to what is said next.
    meddling: Option<Meddling>,
}

struct End {
    process: Number,
    /// None before its process has taken it, and after it has closed it.
    key: Option<Key>,
    is_closed: bool,
    /// When the last of what was sent to it comes: nothing overtakes.
    arrives: Instant,
}

/// What somebody on a connection can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meddling {
    Changes,
    Repeats,
    Drops,
}

/// An end of a pipe.
type At = (usize, usize);

enum Event {
    Wake,
    Connecting(At),
    Connected(At),
    Refused(At),
    Accepted(At),
    Bytes(At, Vec<u8>),
    Closed(At, &'static str),
    Resumed,
}

struct Due {
    at: Instant,
    /// Of all events that ever were.
    number: u64,
    process: Number,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The first one is the greatest, as a heap gives it.
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    Stopped,
    Dead,
    /// It runs, and nothing reaches it or leaves it.
    CutOff,
}

struct Process {
    endpoint: Endpoint,
    asks: Receiver<Ask>,
    hub: Arc<Hub>,
    state: State,
    ends_by_key: BTreeMap<Key, At>,
    /// Connections that it has not taken yet, with what came on them.
    backlog: VecDeque<At>,
    /// What has happened while it was stopped.
    missed: VecDeque<Event>,
    /// When it is woken next.
    next_wake: Option<Instant>,
}

pub(super) struct Network {
    start: Instant,
    now: Instant,
    due: BinaryHeap<Due>,
    next_number: u64,
    processes: Vec<Process>,
    pipes: Vec<Pipe>,
    pub(super) dice: Dice,
    /// How much was said.
    pub(super) bytes: u64,
    pub(super) events: u64,
}

impl Network {
    pub(super) fn new(count: usize, heartbeat: Duration, dice: Dice) -> Self {
        let (start, tables) = (Instant::now(), Tables::default());
        let process = |number: usize| {
            let mut endpoint = Endpoint::new(PORT, heartbeat, MOST_UNPROVEN, start);
            endpoint.share(tables.clone());
            let (hub, asks) = Hub::unattended(vec![address(number)], endpoint.resumed_at());
            let (ends_by_key, backlog, missed) =
                (BTreeMap::new(), VecDeque::new(), VecDeque::new());
            let state = State::Running;
            Process { endpoint, asks, hub, state, ends_by_key, backlog, missed, next_wake: None }
        };
        let processes = (0..count).map(process).collect();
        let (due, pipes) = (BinaryHeap::new(), Vec::new());
        Self { start, now: start, due, next_number: 0, processes, pipes, dice, bytes: 0, events: 0 }
    }

    pub(super) fn hub(&self, process: Number) -> &Arc<Hub> {
        &self.processes[process].hub
    }

    /// How long it has run.
    pub(super) fn time(&self) -> Duration {
        self.now - self.start
    }

    pub(super) fn is_dead(&self, process: Number) -> bool {
        self.processes[process].state == State::Dead
    }

    /// Whether nothing has happened to a process.
    pub(super) fn is_well(&self, process: Number) -> bool {
        self.processes[process].state == State::Running
    }

    /// Whether a process has a connection that is proven.
    pub(super) fn is_known(&mut self, process: Number) -> bool {
        self.proven(process).next().is_some()
    }

    fn proven(&mut self, process: Number) -> impl Iterator<Item = At> {
        let Process { endpoint, ends_by_key, .. } = &mut self.processes[process];
        let is_proven = |key: Key, endpoint: &mut Endpoint| {
            let conn = endpoint.conns().get(key);
            conn.is_some_and(|conn| {
                matches!(
                    conn.role,
                    Role::BootstrapPeer { .. } | Role::Bootstrap { .. } | Role::Link { .. }
                )
            })
        };
        ends_by_key.iter().filter_map(move |(key, at)| is_proven(*key, endpoint).then_some(*at))
    }

    fn delay(&mut self) -> Duration {
        let most = if self.dice.roll(50) == 0 { DELAYS.1 } else { DELAYS.0 };
        Duration::from_micros(20 + self.dice.roll(most) as u64)
    }

    fn schedule(&mut self, at: Instant, process: Number, event: Event) {
        self.next_number += 1;
        self.due.push(Due { at, number: self.next_number, process, event });
    }

    /// Sends something to an end, behind what was sent before.
    fn send(&mut self, (pipe, side): At, event: Event) {
        let at = self.now + self.delay();
        let end = &mut self.pipes[pipe].ends[side];
        end.arrives = end.arrives.max(at);
        let (at, process) = (end.arrives, end.process);
        self.schedule(at, process, event);
    }

    /// Whether nothing passes between the ends.
    fn is_cut(&self, pipe: usize) -> bool {
        let Pipe { ends: [a, b], is_broken, .. } = &self.pipes[pipe];
        let is_cut_off = |end: &End| self.processes[end.process].state == State::CutOff;
        *is_broken || a.process != b.process && (is_cut_off(a) || is_cut_off(b))
    }

    /// The next thing that happens, no later than `until`; the process that it happens to.
    pub(super) fn step(&mut self, until: Duration) -> Option<Number> {
        let until = self.start + until;
        if self.due.peek().is_none_or(|due| due.at > until) {
            self.now = self.now.max(until);
            return None;
        }
        let Due { at, process, event, .. } = self.due.pop()?;
        self.now = at;
        self.events += 1;
        self.handle_event(process, event);
        Some(process)
    }

    fn handle_event(&mut self, number: Number, event: Event) {
        let process = &mut self.processes[number];
        match (process.state, &event) {
            (State::Dead, &Event::Connecting((pipe, _))) => {
                if !self.is_cut(pipe) {
                    self.send((pipe, 0), Event::Refused((pipe, 0)));
                }
                return;
            }
            (State::Dead, _) => return,
            // The system takes connections on behalf of a process that is stopped.
            (State::Stopped, Event::Connecting(_)) => {}
            (State::Stopped, Event::Resumed) => {
                process.state = State::Running;
                for event in std::mem::take(&mut process.missed) {
                    self.handle_event(number, event);
                }
                return self.handle_event(number, Event::Wake);
            }
            (State::Stopped, Event::Wake) => return process.next_wake = None,
            (State::Stopped, _) => return process.missed.push_back(event),
            (State::Running | State::CutOff, _) => {}
        }
        self.dispatch(number, event);
        if self.processes[number].state != State::Stopped {
            self.pump(number);
        }
    }

    /// Tells a process that runs what happens.
    fn dispatch(&mut self, number: Number, event: Event) {
        let now = self.now;
        let is_lost = matches!(&event, Event::Bytes((pipe, _), _) if self.is_cut(*pipe));
        let key_of = |pipes: &[Pipe], (pipe, side): At| pipes[pipe].ends[side].key;
        let Process { endpoint, next_wake, backlog, .. } = &mut self.processes[number];
        match event {
            Event::Wake => {
                *next_wake = None;
                endpoint.handle_timeout(now);
            }
            Event::Resumed => {}
            Event::Connecting((pipe, _)) => {
                if !self.is_cut(pipe) {
                    self.send((pipe, 0), Event::Connected((pipe, 0)));
                    self.send((pipe, 1), Event::Accepted((pipe, 1)));
                }
            }
            Event::Connected(at) => {
                if let Some(key) = key_of(&self.pipes, at) {
                    endpoint.handle_connected(key, now);
                }
            }
            Event::Refused(at) => {
                if let Some(key) = key_of(&self.pipes, at) {
                    let why = "Connection refused".to_owned();
                    let error = ConnectError { why, is_refused: true, is_local: false };
                    endpoint.handle_connect_error(key, &error, now);
                }
            }
            Event::Accepted(at) => {
                backlog.push_back(at);
                self.accept(number);
            }
            Event::Bytes(..) if is_lost => {}
            Event::Bytes(at, bytes) => match key_of(&self.pipes, at) {
                Some(key) => endpoint.handle_bytes(key, &bytes, now),
                // It may not have been taken yet.
                None if backlog.contains(&at) => {
                    self.schedule(now + Duration::from_millis(1), number, Event::Bytes(at, bytes));
                }
                None => {}
            },
            Event::Closed(at, why) => match key_of(&self.pipes, at) {
                Some(key) => endpoint.handle_closed(key, why, now),
                None => backlog.retain(|other| *other != at),
            },
        }
    }

    fn accept(&mut self, number: Number) {
        let now = self.now;
        let Self { processes, pipes, .. } = self;
        let Process { endpoint, ends_by_key, backlog, .. } = &mut processes[number];
        while !backlog.is_empty() && endpoint.can_accept(OWN_ACCEPTOR, now) {
            let Some((pipe, side)) = backlog.pop_front() else { return };
            let other = pipes[pipe].ends[1 - side].process;
            let Some(key) = endpoint.handle_accepted(OWN_ACCEPTOR, Some(address(other)), now)
            else {
                return;
            };
            pipes[pipe].ends[side].key = Some(key);
            ends_by_key.insert(key, (pipe, side));
        }
    }

    /// Does what a process asks for, and carries what it says.
    pub(super) fn pump(&mut self, number: Number) {
        let now = self.now;
        loop {
            let process = &mut self.processes[number];
            if let Ok(ask) = process.asks.try_recv() {
                if let Ask::Command(command) = ask {
                    process.endpoint.handle_command(command, now);
                }
                continue;
            }
            if let Some(action) = process.endpoint.poll_action() {
                self.run_action(number, action);
                continue;
            }
            let dirty = process.endpoint.conns().take_dirty();
            if dirty.is_empty() {
                break;
            }
            dirty.into_iter().for_each(|key| self.transmit(number, key));
        }
        let process = &mut self.processes[number];
        process.endpoint.handle_flushed();
        if let Some(next) = process.endpoint.poll_timeout()
            && process.next_wake.is_none_or(|at| next < at)
        {
            process.next_wake = Some(next);
            self.schedule(next.max(now), number, Event::Wake);
        }
    }

    fn run_action(&mut self, number: Number, action: Action) {
        match action {
            Action::Connect { key, address } => {
                let to = number_of(address).filter(|to| *to < self.processes.len());
                let end = |process, key| End { process, key, is_closed: false, arrives: self.now };
                let ends = [end(number, Some(key)), end(to.unwrap_or(number), None)];
                self.pipes.push(Pipe { ends, is_broken: false, meddling: None });
                let pipe = self.pipes.len() - 1;
                self.processes[number].ends_by_key.insert(key, (pipe, 0));
                if !self.is_cut(pipe) {
                    self.send((pipe, 1), Event::Connecting((pipe, 1)));
                }
            }
            Action::Close(key) => {
                if let Some((pipe, side)) = self.processes[number].ends_by_key.remove(&key) {
                    self.pipes[pipe].ends[side].key = None;
                    self.close_end((pipe, side));
                }
            }
            Action::Accept(_) => self.accept(number),
            Action::CloseAcceptor(_) => {}
        }
    }

    /// Nothing more comes from this end.
    fn close_end(&mut self, (pipe, side): At) {
        let end = &mut self.pipes[pipe].ends[side];
        if !std::mem::replace(&mut end.is_closed, true) && !self.is_cut(pipe) {
            let other = (pipe, 1 - side);
            self.send(other, Event::Closed(other, "its connection was closed"));
        }
    }

    fn transmit(&mut self, number: Number, key: Key) {
        let Process { endpoint, ends_by_key, .. } = &mut self.processes[number];
        let Some(&(pipe, side)) = ends_by_key.get(&key) else { return };
        let conns = endpoint.conns();
        let Some(mut bytes) = conns.poll_transmit(key).map(<[u8]>::to_vec) else { return };
        let is_shut_down = bytes.is_empty() && conns.poll_shutdown(key);
        if !bytes.is_empty() {
            conns.handle_sent(key, bytes.len());
            self.bytes += bytes.len() as u64;
            match self.pipes[pipe].meddling.take() {
                None => {}
                Some(Meddling::Changes) => {
                    let at = self.dice.roll(bytes.len());
                    bytes[at] ^= 1 << self.dice.roll(8);
                }
                Some(Meddling::Repeats) => bytes.extend(bytes.clone()),
                Some(Meddling::Drops) => bytes.clear(),
            }
            if !self.is_cut(pipe) {
                let other = (pipe, 1 - side);
                self.send(other, Event::Bytes(other, bytes));
            }
        }
        if is_shut_down || self.processes[number].endpoint.conns().poll_shutdown(key) {
            self.close_end((pipe, side));
        }
    }

    /// A process ends, however: the system closes its connections.
    pub(super) fn kill(&mut self, number: Number) {
        self.processes[number].state = State::Dead;
        for at in std::mem::take(&mut self.processes[number].ends_by_key).into_values() {
            self.close_end(at);
        }
    }

    /// A process is stopped for a while.
    pub(super) fn stop(&mut self, number: Number, time: Duration) {
        self.processes[number].state = State::Stopped;
        self.schedule(self.now + time, number, Event::Resumed);
    }

    /// Nothing reaches a process any more, or leaves it.
    pub(super) fn cut_off(&mut self, number: Number) {
        self.processes[number].state = State::CutOff;
    }

    /// Breaks a connection of a process, if it has one such; the processes at its ends.
    pub(super) fn break_one(&mut self, number: Number, is_proven: bool) -> Option<[Number; 2]> {
        let pipe = self.any_of(number, is_proven)?;
        self.pipes[pipe].is_broken = true;
        for side in [0, 1] {
            let at = (pipe, side);
            self.send(at, Event::Closed(at, "its connection broke: reset by peer"));
        }
        Some(self.ends_of(pipe))
    }

    /// Does something to what is said next on a proven connection of a process; the processes at
    /// its ends.
    pub(super) fn meddle(&mut self, number: Number, how: Meddling) -> Option<[Number; 2]> {
        let pipe = self.any_of(number, true)?;
        self.pipes[pipe].meddling = Some(how);
        Some(self.ends_of(pipe))
    }

    fn ends_of(&self, pipe: usize) -> [Number; 2] {
        [0, 1].map(|side| self.pipes[pipe].ends[side].process)
    }

    fn any_of(&mut self, number: Number, is_proven: bool) -> Option<usize> {
        let proven: Vec<At> = self.proven(number).collect();
        let all = self.processes[number].ends_by_key.values().copied();
        let all: Vec<At> = all.filter(|at| proven.contains(at) == is_proven).collect();
        let (pipe, _) = *all.get(self.dice.roll(all.len()))?;
        // The other side may have it proven already.
        let [a, b] = self.ends_of(pipe);
        let is_proven_there =
            self.proven(a).any(|at| at.0 == pipe) || self.proven(b).any(|at| at.0 == pipe);
        (is_proven_there == is_proven).then_some(pipe)
    }
}

pub(super) fn address(number: Number) -> SocketAddr {
    let number = u32::try_from(number).unwrap_or(0);
    (Ipv4Addr::from(number + u32::from(Ipv4Addr::new(10, 0, 0, 1))), PORT).into()
}

fn number_of(address: SocketAddr) -> Option<Number> {
    let SocketAddr::V4(v4) = address else { return None };
    let number = u32::from(*v4.ip()).checked_sub(u32::from(Ipv4Addr::new(10, 0, 0, 1)))?;
    usize::try_from(number).ok()
}
