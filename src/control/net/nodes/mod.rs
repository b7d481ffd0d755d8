//! Simulates thousands of ranks in one thread, on a network in memory with a simulated clock. A
//! seed determines when ranks join, how long messages take and which faults happen.
//!
//! Under all faults, each living rank either completes every exchange with all contributions, or
//! gets an error about a rank that is really lost. None waits for ever. What a rank told
//! all others before an exchange has come once, and in order, when the exchange is complete.

mod network;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::fuzz::Dice;
use super::hub::Command;
use super::node::Meet;
use super::proof::Secret;
use super::unique::BootstrapHandle;
use super::{Joiner, next_node};
use crate::control::{FINISH, Leaves, Meeting, Parts};
use crate::error::{Error, Site};
use crate::{Rank, Result};

use network::{Meddling, Network, Number, address};
use words::Words;

const BEAT: Duration = Duration::from_secs(1);

/// The limit on simulated time.
const LIMIT: Duration = Duration::from_secs(120);

/// The number of exchanges. The last one begins after the last fault.
const EXCHANGES: u64 = 4;

/// The number of neighbouring ranks that contribute the same bytes.
const ALIKE: usize = 64;

/// How many ranks announce that they stop because of a failure. If all of ten thousand did, that
/// would be a hundred million messages.
const TELLERS: usize = 100;

/// The most ranks that encrypt. With more, encryption would dominate the running time.
const SEALED: usize = 1000;

/// The outcome of a simulation.
#[derive(Clone, Debug)]
pub struct Lived {
    /// The number of ranks.
    pub ranks: usize,
    /// The faults that happened, in words.
    pub faults: Vec<String>,
    /// The number of ranks that completed every exchange.
    pub completed: usize,
    /// The number of ranks that were told of lost peers.
    pub told: usize,
    /// The number of ranks that were told that the others continue without them.
    pub excluded: usize,
    /// The simulated time.
    pub time: Duration,
    /// The number of bytes sent.
    pub bytes: u64,
    /// The number of simulated events.
    pub events: u64,
}

/// One rank, in a process of its own.
struct Player {
    meeting: Option<Arc<Meeting>>,
    words: Arc<Words>,
    joins_at: Duration,
    /// When it starts its next exchange.
    acts_at: Duration,
    posted: u64,
    is_waiting: bool,
    /// It drops its communicator instead of finishing it.
    drops: bool,
    /// `None` while it takes part.
    outcome: Option<Result<()>>,
}

/// A fault and its time.
struct Fault {
    at: Duration,
    kind: Kind,
    victim: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Killed,
    /// Stopped for less time than its peers wait.
    Paused,
    /// Stopped for longer than its peers wait.
    Stopped,
    CutOff,
    /// One of its unauthenticated connections broke.
    Unproven,
    /// One of its authenticated connections broke.
    Broken,
    /// One of its connections was tampered with.
    Meddled(Meddling),
}

struct World {
    network: Network,
    players: Vec<Player>,
    faults: Vec<Fault>,
    /// Ranks that may be reported as lost.
    victims: BTreeSet<u32>,
    history: Vec<String>,
    last_fault: Duration,
    /// The number of ranks without an outcome.
    open: usize,
    meet: Meet,
    secret: Secret,
    /// Rank 0's node.
    root: u64,
    /// Processes that end once what they said is sent.
    ending: Vec<(Number, Receiver<()>)>,
}

/// Simulates `count` ranks with the faults of `seed`.
///
/// # Errors
/// A rank completed an exchange with wrong parts, was told of a loss that did not happen, or waited
/// for ever.
pub fn nodes(seed: u64, count: usize) -> Result<Lived> {
    let mut world = World::new(seed, count)?;
    world.run()?;
    world.check()
}

impl World {
    fn new(seed: u64, count: usize) -> Result<Self> {
        let mut dice = Dice(seed ^ 0x9e37_79b9_7f4a_7c15);
        dice.roll(1);
        let drop_one_in = [usize::MAX, 2, 8][dice.roll(3)];
        let player = |rank: usize, dice: &mut Dice| {
            let (meeting, words) = (None, Arc::new(Words::of(rank, count)));
            let joins_at = millis(dice.roll(1000));
            let acts_at = joins_at;
            let (drops, is_waiting) = (dice.roll(drop_one_in) == 0, false);
            Player {
                meeting,
                words,
                joins_at,
                acts_at,
                posted: 0,
                is_waiting,
                drops,
                outcome: None,
            }
        };
        let players = (0..count).map(|rank| player(rank, &mut dice)).collect();
        let kinds = [
            Kind::Killed,
            Kind::Killed,
            Kind::Paused,
            Kind::Stopped,
            Kind::CutOff,
            Kind::Unproven,
            Kind::Broken,
            Kind::Meddled(Meddling::Changes),
            Kind::Meddled(Meddling::Repeats),
            Kind::Meddled(Meddling::Drops),
        ];
        let fault = |dice: &mut Dice| {
            let at = millis(dice.roll(4000));
            // Half of the victims are low ranks, which have children.
            let below = if dice.roll(2) == 0 { count } else { count.min(40) };
            Fault { at, kind: kinds[dice.roll(kinds.len())], victim: dice.roll(below) }
        };
        let mut faults: Vec<_> = (0..dice.roll(5)).map(|_| fault(&mut dice)).collect();
        faults.sort_by_key(|fault| std::cmp::Reverse(fault.at));
        let network = Network::new(count, BEAT, dice);
        let mut place = BootstrapHandle::new(vec![address(0)])?;
        if count > SEALED {
            place.secret = place.secret.public();
        }
        let root = next_node();
        place.open(network.hub(0), Some(root));
        let meet = Meet { host: Some(0), ..place.meet("there".to_owned()) };
        let secret = place.secret;
        let (victims, history, last_fault) = (BTreeSet::new(), Vec::new(), millis(0));
        let open = count;
        Ok(Self {
            network,
            players,
            faults,
            victims,
            history,
            last_fault,
            open,
            meet,
            secret,
            root,
            ending: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<()> {
        self.network.pump(0);
        let mut next: BTreeSet<(Duration, Number)> =
            self.players.iter().enumerate().map(|(rank, player)| (player.joins_at, rank)).collect();
        while self.open > 0 {
            let due = next.first().map_or(LIMIT, |(at, _)| *at);
            let due = self.faults.last().map_or(due, |fault| due.min(fault.at));
            match self.network.step(due.min(LIMIT)) {
                Some(process) => {
                    self.check_rank(process, &mut next)?;
                    let over = |(_, done): &mut (Number, Receiver<()>)| done.try_recv().is_ok();
                    for (process, _) in self.ending.extract_if(.., over) {
                        self.network.kill(process);
                    }
                }
                None if self.network.time() >= LIMIT => return Err(self.stuck()),
                None => {
                    let now = self.network.time();
                    while let Some(fault) = self.faults.pop_if(|fault| fault.at <= now) {
                        self.inject(fault);
                    }
                    while let Some((at, rank)) = next.pop_first() {
                        if at > now {
                            next.insert((at, rank));
                            break;
                        }
                        self.advance(rank)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A rank joins, or contributes to its next exchange.
    fn advance(&mut self, rank: Number) -> Result<()> {
        if self.network.is_dead(rank) || self.players[rank].outcome.is_some() {
            return Ok(());
        }
        if self.players[rank].meeting.is_none() {
            let count = self.players.len();
            let process = rank as u64 + 1;
            let joiner = Joiner::of(self.network.hub(rank).clone(), rank, count, process)?;
            let key = if rank == 0 { self.root } else { next_node() };
            let meeting = joiner.join(key, self.meet.clone(), self.secret.clone())?;
            Words::listen(&self.players[rank].words, &meeting);
            self.players[rank].meeting = Some(meeting);
        }
        let player = &mut self.players[rank];
        if let Some(meeting) = &player.meeting {
            let (number, part) = (Rank::at(rank).0, part(rank, player.posted));
            let is_last = player.posted + 1 == EXCHANGES;
            let topic = if is_last { FINISH } else { "exchange" };
            player.words.say(meeting, player.posted);
            meeting.post(number, player.posted, topic, Site::caller(), part);
            player.is_waiting = true;
            if is_last && player.drops {
                meeting.leave(number, "its communicator was dropped", Leaves::Dropped);
                player.is_waiting = false;
                self.finish(rank, Ok(()));
            }
        }
        self.network.pump(rank);
        Ok(())
    }

    /// Checks whether a rank's exchange is over.
    fn check_rank(&mut self, rank: Number, next: &mut BTreeSet<(Duration, Number)>) -> Result<()> {
        let count = self.players.len();
        let player = &mut self.players[rank];
        let Some(meeting) = player.meeting.as_ref().filter(|_| player.is_waiting) else {
            return Ok(());
        };
        let number = Rank::at(rank).0;
        match meeting.try_collect(number, player.posted, "World") {
            Ok(None) => {}
            Ok(Some(parts)) => {
                is_whole(&parts, count, player.posted)?;
                let heard = player.words.check(player.posted, &self.victims);
                heard.map_err(|why| Error::other(format!("{why}; {:?}", self.history)))?;
                player.posted += 1;
                player.is_waiting = false;
                if player.posted == EXCHANGES {
                    self.finish(rank, Ok(()));
                    self.network.pump(rank);
                    return Ok(());
                }
                let is_last = player.posted + 1 == EXCHANGES;
                let pause = millis(self.network.dice.roll(if is_last { 10 } else { 300 }));
                player.acts_at = self.network.time() + pause;
                if is_last {
                    player.acts_at = player.acts_at.max(self.last_fault + BEAT * 4 + pause);
                }
                next.insert((player.acts_at, rank));
            }
            Err(error) => {
                if rank < TELLERS {
                    meeting.leave(number, "it was told of a failure", Leaves::Stopped);
                }
                player.is_waiting = false;
                self.finish(rank, Err(error));
                self.network.pump(rank);
            }
        }
        Ok(())
    }

    /// A rank is done with its communicator. Half of the processes end then.
    fn finish(&mut self, rank: Number, outcome: Result<()>) {
        let player = &mut self.players[rank];
        let outcome = player.outcome.replace(outcome);
        self.open -= usize::from(outcome.is_none());
        if player.posted == 0 {
            // Others may come later, and are told by its process.
            return;
        }
        drop(player.meeting.take());
        if !self.network.is_dead(rank) && self.network.dice.roll(2) == 0 {
            let (done, ended) = channel();
            self.network.hub(rank).send(Command::End(done));
            self.ending.push((rank, ended));
        }
    }

    fn inject(&mut self, fault: Fault) {
        let Fault { at, kind, victim } = fault;
        // Nothing can detect the death of a rank that has not connected, or of a rendezvous before
        // every rank has.
        let is_known = match victim {
            0 => (0..self.players.len()).all(|rank| self.network.is_known(rank)),
            _ => self.network.is_known(victim),
        };
        if !is_known || !self.network.is_well(victim) {
            return;
        }
        self.last_fault = self.last_fault.max(at);
        let mut lost = vec![victim];
        match kind {
            Kind::Killed => {
                self.network.kill(victim);
                self.finish(victim, Ok(()));
            }
            Kind::CutOff => self.network.cut_off(victim),
            Kind::Stopped => self.network.stop(victim, BEAT * 5),
            Kind::Paused => {
                self.network.stop(victim, BEAT * 3 / 2);
                lost.clear();
            }
            Kind::Unproven => {
                self.network.break_one(victim, false);
                lost.clear();
            }
            Kind::Meddled(how) if self.secret.is_secret() => {
                lost = self.network.meddle(victim, how).map_or(Vec::new(), Vec::from);
            }
            Kind::Meddled(_) | Kind::Broken => {
                lost = self.network.break_one(victim, true).map_or(Vec::new(), Vec::from);
            }
        }
        self.history.push(format!("{at:?}: rank {victim} {kind:?}, may be lost: {lost:?}"));
        self.victims.extend(lost.iter().map(|rank| Rank::at(*rank).0));
    }

    fn stuck(&self) -> Error {
        let waits = |(rank, player): (usize, &Player)| player.outcome.is_none().then_some(rank);
        let all: Vec<_> = self.players.iter().enumerate().filter_map(waits).take(16).collect();
        Error::other(format!("ranks {all:?} wait for ever; {:?}", self.history))
    }

    fn check(self) -> Result<Lived> {
        let (mut completed, mut told, mut excluded) = (0, 0, 0);
        for (rank, player) in self.players.iter().enumerate() {
            let is_victim = self.victims.contains(&Rank::at(rank).0);
            match &player.outcome {
                Some(Ok(())) => completed += 1,
                Some(Err(Error::Excluded(_))) if is_victim => excluded += 1,
                // A rank that is cut off observes that its peers are unreachable.
                Some(Err(Error::PeerFailed(failed))) => {
                    told += 1;
                    let is_lost = |lost: &Rank| self.victims.contains(&Rank::at(lost.index()).0);
                    // Ranks that were told end, some before others are told.
                    let has_failed = |lost: &Rank| {
                        let player = &self.players[lost.index()];
                        player.drops || matches!(player.outcome, Some(Err(_)))
                    };
                    let mut lost = failed.lost.iter();
                    let is_true = lost.clone().any(is_lost)
                        && lost.all(|lost| is_lost(lost) || has_failed(lost));
                    if !is_victim && !is_true {
                        let history = &self.history;
                        return Err(Error::other(format!(
                            "rank {rank} was told: {failed}; {history:?}"
                        )));
                    }
                }
                Some(Err(error)) => {
                    let history = &self.history;
                    return Err(Error::other(format!(
                        "rank {rank} was told: {error}; {history:?}"
                    )));
                }
                None => return Err(self.stuck()),
            }
        }
        let Self { network, players, history, .. } = &self;
        let (time, bytes, events) = (network.time(), network.bytes, network.events);
        let (ranks, faults) = (players.len(), history.clone());
        Ok(Lived { ranks, faults, completed, told, excluded, time, bytes, events })
    }
}

/// A rank's contribution to an exchange.
fn part(rank: usize, seq: u64) -> Vec<u8> {
    let group = u16::try_from(rank / ALIKE).unwrap_or(0).to_le_bytes();
    vec![group[0], group[1], u8::try_from(seq).unwrap_or(0)]
}

fn is_whole(parts: &Parts, count: usize, seq: u64) -> Result<()> {
    let mut expected = Vec::new();
    for (rank, found) in parts.iter().enumerate() {
        if rank % ALIKE == 0 {
            expected = part(rank, seq);
        }
        if **found != *expected {
            return Err(Error::other(format!("exchange {seq}: rank {rank} did not say {found:?}")));
        }
    }
    match parts.len() == count {
        true => Ok(()),
        false => Err(Error::other(format!("exchange {seq} has {} parts", parts.len()))),
    }
}

fn millis(count: usize) -> Duration {
    Duration::from_millis(count as u64)
}

#[cfg(test)]
mod tests {
    use super::nodes;

    #[test]
    fn living_ranks_get_true_errors_and_none_waits_for_ever() {
        // `xtask nodes` has more seeds and more ranks.
        let mut faults = Vec::new();
        for (seeds, count) in [(0..200, 4), (0..100, 3), (0..3, 19)] {
            for seed in seeds {
                match nodes(seed, count) {
                    Ok(lived) => faults.extend(lived.faults),
                    Err(error) => panic!("seed {seed}, {count} ranks: {error}"),
                }
            }
        }
        let kinds = [
            "Killed", "Paused", "Stopped", "CutOff", "Unproven", "Broken", "Changes", "Repeats",
            "Drops",
        ];
        for kind in kinds {
            assert!(
                faults.iter().any(|fault| fault.contains(kind)),
                "no rank was {kind}: {faults:?}"
            );
        }
    }
}
