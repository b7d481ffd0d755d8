//! A simulated network and clock: endpoints, the messages in flight, and faults.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::super::conns::{Action, ConnectError, Key};
use super::super::endpoint::{Endpoint, OWN_ACCEPTOR, Tables};
use super::super::fuzz::Dice;
use super::super::hub::{Ask, Hub};

const PORT: u16 = 1;

/// The most unauthenticated connections of a process.
const MOST_UNPROVEN: usize = 1024;

/// The usual and the rare longest delay, in microseconds.
const DELAYS: (usize, usize) = (1000, 40_000);

/// Identifies a process, from 0.
pub(super) type Number = usize;

/// A connection between two processes; the connecting side is the first end.
struct Pipe {
    ends: [End; 2],
    /// Bytes in flight are lost.
    is_broken: bool,
    /// What happens to the next bytes.
    meddling: Option<Meddling>,
}

struct End {
    process: Number,
    /// `None` before its process accepts it and after its process closes it.
    key: Option<Key>,
    is_closed: bool,
    /// When the last event for it is due, since nothing is reordered.
    arrives: Instant,
}

/// What an attacker does to bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meddling {
    Changes,
    Repeats,
    Drops,
}

/// A pipe and the side of an end.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    Stopped,
    Dead,
    /// Running, but isolated from the network.
    CutOff,
}

struct Process {
    endpoint: Endpoint,
    asks: Receiver<Ask>,
    hub: Arc<Hub>,
    state: State,
    ends_by_key: BTreeMap<Key, At>,
    /// Connections to be accepted.
    backlog: VecDeque<At>,
    /// Events during a stop.
    missed: VecDeque<Event>,
    next_wake: Option<Instant>,
}

pub(super) struct Network {
    start: Instant,
    now: Instant,
    /// The events by time and by number, which orders those of the same time.
    due: BTreeMap<(Instant, u64), (Number, Event)>,
    next_number: u64,
    processes: Vec<Process>,
    pipes: Vec<Pipe>,
    pub(super) dice: Dice,
    /// The number of bytes sent.
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
        let (due, pipes) = (BTreeMap::new(), Vec::new());
        Self { start, now: start, due, next_number: 0, processes, pipes, dice, bytes: 0, events: 0 }
    }

    pub(super) fn hub(&self, process: Number) -> &Arc<Hub> {
        &self.processes[process].hub
    }

    /// The simulated time.
    pub(super) fn time(&self) -> Duration {
        self.now - self.start
    }

    pub(super) fn is_dead(&self, process: Number) -> bool {
        self.processes[process].state == State::Dead
    }

    /// Whether no fault has hit a process.
    pub(super) fn is_well(&self, process: Number) -> bool {
        self.processes[process].state == State::Running
    }

    /// Whether a process has an authenticated connection.
    pub(super) fn is_known(&mut self, process: Number) -> bool {
        self.proven(process).next().is_some()
    }

    fn proven(&mut self, process: Number) -> impl Iterator<Item = At> {
        let Process { endpoint, ends_by_key, .. } = &mut self.processes[process];
        let is_proven = |key: Key, endpoint: &mut Endpoint| {
            let conn = endpoint.conns().get(key);
            conn.is_some_and(|conn| conn.role.is_authenticated())
        };
        ends_by_key.iter().filter_map(move |(key, at)| is_proven(*key, endpoint).then_some(*at))
    }

    fn delay(&mut self) -> Duration {
        let most = if self.dice.roll(50) == 0 { DELAYS.1 } else { DELAYS.0 };
        Duration::from_micros(20 + self.dice.roll(most) as u64)
    }

    fn schedule(&mut self, at: Instant, process: Number, event: Event) {
        self.next_number += 1;
        self.due.insert((at, self.next_number), (process, event));
    }

    /// Schedules an event for an end, after all earlier ones.
    fn send(&mut self, (pipe, side): At, event: Event) {
        let at = self.now + self.delay();
        let end = &mut self.pipes[pipe].ends[side];
        end.arrives = end.arrives.max(at);
        let (at, process) = (end.arrives, end.process);
        self.schedule(at, process, event);
    }

    /// Whether the ends cannot reach each other.
    fn is_cut(&self, pipe: usize) -> bool {
        let Pipe { ends: [a, b], is_broken, .. } = &self.pipes[pipe];
        let is_cut_off = |end: &End| self.processes[end.process].state == State::CutOff;
        *is_broken || a.process != b.process && (is_cut_off(a) || is_cut_off(b))
    }

    /// Advances to the next event, at most to `until`; the process that it is for.
    pub(super) fn step(&mut self, until: Duration) -> Option<Number> {
        let until = self.start + until;
        let Some(due) = self.due.first_entry().filter(|due| due.key().0 <= until) else {
            self.now = self.now.max(until);
            return None;
        };
        let ((at, _), (process, event)) = due.remove_entry();
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
            // The kernel accepts connections for a stopped process.
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

    /// Passes an event to a running process.
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
                Some(key) => {
                    let mut has_more = endpoint.handle_bytes(key, &bytes, now);
                    while has_more {
                        has_more = endpoint.handle_more(key, now);
                    }
                }
                // The connection may still be in the backlog.
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

    /// Runs a process's commands and actions, and transmits its output.
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

    /// Closes this side of a pipe.
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
            if conns.get(key).is_some_and(|conn| conn.has_more()) {
                conns.mark_dirty(key);
            }
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

    /// Ends a process; the kernel closes its connections.
    pub(super) fn kill(&mut self, number: Number) {
        self.processes[number].state = State::Dead;
        for at in std::mem::take(&mut self.processes[number].ends_by_key).into_values() {
            self.close_end(at);
        }
    }

    /// Stops a process for a while.
    pub(super) fn stop(&mut self, number: Number, time: Duration) {
        self.processes[number].state = State::Stopped;
        self.schedule(self.now + time, number, Event::Resumed);
    }

    /// Isolates a process from the network.
    pub(super) fn cut_off(&mut self, number: Number) {
        self.processes[number].state = State::CutOff;
    }

    /// Breaks an authenticated or an unauthenticated connection of a process, if it has one; the
    /// processes at its ends.
    pub(super) fn break_one(&mut self, number: Number, is_proven: bool) -> Option<[Number; 2]> {
        let pipe = self.any_of(number, is_proven)?;
        self.pipes[pipe].is_broken = true;
        for side in [0, 1] {
            let at = (pipe, side);
            self.send(at, Event::Closed(at, "its connection broke: reset by peer"));
        }
        Some(self.ends_of(pipe))
    }

    /// Tampers with the next bytes of an authenticated connection; the processes at its ends.
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
        // The two sides can disagree for a moment on whether it is authenticated.
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
