//! A network in memory, with a clock of its own: endpoints, what is on its way between them, and
//! what goes wrong.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::super::conns::{Action, Key, Role, Unmade};
use super::super::endpoint::{Endpoint, OWN_DOOR, Tables};
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
    comes: Instant,
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
    Asked(At),
    Made(At),
    Refused(At),
    Taken(At),
    Bytes(At, Vec<u8>),
    Closed(At, &'static str),
    GoesOn,
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
    Runs,
    Stopped,
    Dead,
    /// It runs, and nothing reaches it or leaves it.
    Alone,
}

struct Process {
    endpoint: Endpoint,
    asks: Receiver<Ask>,
    hub: Arc<Hub>,
    state: State,
    wires: BTreeMap<Key, At>,
    /// Connections that it has not taken yet, with what came on them.
    waiting: VecDeque<At>,
    /// What has happened while it was stopped.
    missed: VecDeque<Event>,
    /// When it is woken next.
    wakes: Option<Instant>,
}

pub(super) struct Network {
    start: Instant,
    now: Instant,
    due: BinaryHeap<Due>,
    numbers: u64,
    processes: Vec<Process>,
    pipes: Vec<Pipe>,
    pub(super) dice: Dice,
    /// How much was said.
    pub(super) bytes: u64,
    pub(super) events: u64,
}

impl Network {
    pub(super) fn new(count: usize, beat: Duration, dice: Dice) -> Self {
        let (start, tables) = (Instant::now(), Tables::default());
        let process = |number: usize| {
            let mut endpoint = Endpoint::new(PORT, beat, MOST_UNPROVEN, start);
            endpoint.share(tables.clone());
            let (hub, asks) = Hub::unattended(vec![address(number)], endpoint.went_on());
            let (wires, waiting, missed) = (BTreeMap::new(), VecDeque::new(), VecDeque::new());
            let state = State::Runs;
            Process { endpoint, asks, hub, state, wires, waiting, missed, wakes: None }
        };
        let processes = (0..count).map(process).collect();
        let (due, pipes) = (BinaryHeap::new(), Vec::new());
        Self { start, now: start, due, numbers: 0, processes, pipes, dice, bytes: 0, events: 0 }
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
        self.processes[process].state == State::Runs
    }

    /// Whether a process has a connection that is proven.
    pub(super) fn is_known(&mut self, process: Number) -> bool {
        self.proven(process).next().is_some()
    }

    fn proven(&mut self, process: Number) -> impl Iterator<Item = At> {
        let Process { endpoint, wires, .. } = &mut self.processes[process];
        let is_proven = |key: Key, endpoint: &mut Endpoint| {
            let conn = endpoint.conns().get(key);
            conn.is_some_and(|conn| {
                matches!(
                    conn.role,
                    Role::BootstrapPeer { .. } | Role::Bootstrap { .. } | Role::Link { .. }
                )
            })
        };
        wires.iter().filter_map(move |(key, at)| is_proven(*key, endpoint).then_some(*at))
    }

    fn delay(&mut self) -> Duration {
        let most = if self.dice.roll(50) == 0 { DELAYS.1 } else { DELAYS.0 };
        Duration::from_micros(20 + self.dice.roll(most) as u64)
    }

    fn put(&mut self, at: Instant, process: Number, event: Event) {
        self.numbers += 1;
        self.due.push(Due { at, number: self.numbers, process, event });
    }

    /// Sends something to an end, behind what was sent before.
    fn send(&mut self, (pipe, side): At, event: Event) {
        let at = self.now + self.delay();
        let end = &mut self.pipes[pipe].ends[side];
        end.comes = end.comes.max(at);
        let (at, process) = (end.comes, end.process);
        self.put(at, process, event);
    }

    /// Whether nothing passes between the ends.
    fn is_cut(&self, pipe: usize) -> bool {
        let Pipe { ends: [a, b], is_broken, .. } = &self.pipes[pipe];
        let is_alone = |end: &End| self.processes[end.process].state == State::Alone;
        *is_broken || a.process != b.process && (is_alone(a) || is_alone(b))
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
        self.happens(process, event);
        Some(process)
    }

    fn happens(&mut self, number: Number, event: Event) {
        let process = &mut self.processes[number];
        match (process.state, &event) {
            (State::Dead, &Event::Asked((pipe, _))) => {
                if !self.is_cut(pipe) {
                    self.send((pipe, 0), Event::Refused((pipe, 0)));
                }
                return;
            }
            (State::Dead, _) => return,
            // The system takes connections on behalf of a process that is stopped.
            (State::Stopped, Event::Asked(_)) => {}
            (State::Stopped, Event::GoesOn) => {
                process.state = State::Runs;
                for event in std::mem::take(&mut process.missed) {
                    self.happens(number, event);
                }
                return self.happens(number, Event::Wake);
            }
            (State::Stopped, Event::Wake) => return process.wakes = None,
            (State::Stopped, _) => return process.missed.push_back(event),
            (State::Runs | State::Alone, _) => {}
        }
        self.tell(number, event);
        if self.processes[number].state != State::Stopped {
            self.pump(number);
        }
    }

    /// Tells a process that runs what happens.
    fn tell(&mut self, number: Number, event: Event) {
        let now = self.now;
        let is_lost = matches!(&event, Event::Bytes((pipe, _), _) if self.is_cut(*pipe));
        let key_of = |pipes: &[Pipe], (pipe, side): At| pipes[pipe].ends[side].key;
        let Process { endpoint, wakes, waiting, .. } = &mut self.processes[number];
        match event {
            Event::Wake => {
                *wakes = None;
                endpoint.wake(now);
            }
            Event::GoesOn => {}
            Event::Asked((pipe, _)) => {
                if !self.is_cut(pipe) {
                    self.send((pipe, 0), Event::Made((pipe, 0)));
                    self.send((pipe, 1), Event::Taken((pipe, 1)));
                }
            }
            Event::Made(at) => {
                if let Some(key) = key_of(&self.pipes, at) {
                    endpoint.connected(key, now);
                }
            }
            Event::Refused(at) => {
                if let Some(key) = key_of(&self.pipes, at) {
                    let why = "Connection refused".to_owned();
                    let unmade = Unmade { why, is_refused: true, is_own: false };
                    endpoint.not_connected(key, &unmade, now);
                }
            }
            Event::Taken(at) => {
                waiting.push_back(at);
                self.accept(number);
            }
            Event::Bytes(..) if is_lost => {}
            Event::Bytes(at, bytes) => match key_of(&self.pipes, at) {
                Some(key) => endpoint.came(key, &bytes, now),
                // It may not have been taken yet.
                None if waiting.contains(&at) => {
                    self.put(now + Duration::from_millis(1), number, Event::Bytes(at, bytes));
                }
                None => {}
            },
            Event::Closed(at, why) => match key_of(&self.pipes, at) {
                Some(key) => endpoint.closed(key, why, now),
                None => waiting.retain(|other| *other != at),
            },
        }
    }

    fn accept(&mut self, number: Number) {
        let now = self.now;
        let Self { processes, pipes, .. } = self;
        let Process { endpoint, wires, waiting, .. } = &mut processes[number];
        while !waiting.is_empty() && endpoint.has_room(OWN_DOOR, now) {
            let Some((pipe, side)) = waiting.pop_front() else { return };
            let other = pipes[pipe].ends[1 - side].process;
            let Some(key) = endpoint.accepted(OWN_DOOR, Some(address(other)), now) else { return };
            pipes[pipe].ends[side].key = Some(key);
            wires.insert(key, (pipe, side));
        }
    }

    /// Does what a process asks for, and carries what it says.
    pub(super) fn pump(&mut self, number: Number) {
        let now = self.now;
        loop {
            let process = &mut self.processes[number];
            if let Ok(ask) = process.asks.try_recv() {
                if let Ask::Command(command) = ask {
                    process.endpoint.command(command, now);
                }
                continue;
            }
            if let Some(action) = process.endpoint.next_action() {
                self.act(number, action);
                continue;
            }
            let dirty = process.endpoint.conns().dirty();
            if dirty.is_empty() {
                break;
            }
            dirty.into_iter().for_each(|key| self.carry(number, key));
        }
        let process = &mut self.processes[number];
        process.endpoint.is_written();
        if let Some(next) = process.endpoint.next()
            && process.wakes.is_none_or(|at| next < at)
        {
            process.wakes = Some(next);
            self.put(next.max(now), number, Event::Wake);
        }
    }

    fn act(&mut self, number: Number, action: Action) {
        match action {
            Action::Connect { key, address } => {
                let to = number_of(address).filter(|to| *to < self.processes.len());
                let end = |process, key| End { process, key, is_closed: false, comes: self.now };
                let ends = [end(number, Some(key)), end(to.unwrap_or(number), None)];
                self.pipes.push(Pipe { ends, is_broken: false, meddling: None });
                let pipe = self.pipes.len() - 1;
                self.processes[number].wires.insert(key, (pipe, 0));
                if !self.is_cut(pipe) {
                    self.send((pipe, 1), Event::Asked((pipe, 1)));
                }
            }
            Action::Close(key) => {
                if let Some((pipe, side)) = self.processes[number].wires.remove(&key) {
                    self.pipes[pipe].ends[side].key = None;
                    self.shut((pipe, side));
                }
            }
            Action::Accept(_) => self.accept(number),
            Action::CloseDoor(_) => {}
        }
    }

    /// Nothing more comes from this end.
    fn shut(&mut self, (pipe, side): At) {
        let end = &mut self.pipes[pipe].ends[side];
        if !std::mem::replace(&mut end.is_closed, true) && !self.is_cut(pipe) {
            let other = (pipe, 1 - side);
            self.send(other, Event::Closed(other, "its connection was closed"));
        }
    }

    fn carry(&mut self, number: Number, key: Key) {
        let Process { endpoint, wires, .. } = &mut self.processes[number];
        let Some(&(pipe, side)) = wires.get(&key) else { return };
        let conns = endpoint.conns();
        let Some(mut bytes) = conns.unsent(key).map(<[u8]>::to_vec) else { return };
        let shuts = bytes.is_empty() && conns.shuts(key);
        if !bytes.is_empty() {
            conns.sent(key, bytes.len());
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
        if shuts || self.processes[number].endpoint.conns().shuts(key) {
            self.shut((pipe, side));
        }
    }

    /// A process ends, however: the system closes its connections.
    pub(super) fn kill(&mut self, number: Number) {
        self.processes[number].state = State::Dead;
        for at in std::mem::take(&mut self.processes[number].wires).into_values() {
            self.shut(at);
        }
    }

    /// A process is stopped for a while.
    pub(super) fn stop(&mut self, number: Number, time: Duration) {
        self.processes[number].state = State::Stopped;
        self.put(self.now + time, number, Event::GoesOn);
    }

    /// Nothing reaches a process any more, or leaves it.
    pub(super) fn cut_off(&mut self, number: Number) {
        self.processes[number].state = State::Alone;
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
        let all = self.processes[number].wires.values().copied();
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
