//! Messages and deaths in random order.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Survivors;
use super::machine::{Arrival, Decision, Machine, SurvivorMessage, To};
use crate::Rank;
use crate::backend::{Listener, Wire};
use crate::control::bad_invitation;
use crate::error::Site;
use crate::lock::Mutex;

/// A step of Knuth's generator, whose upper bits are the good ones.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}

enum News {
    SurvivorMessage(u32, SurvivorMessage),
    Died(u32),
}

/// Ranks in separate processes, and the messages in flight.
struct Net {
    ranks: Vec<Machine>,
    alive: Vec<bool>,
    queues: Vec<Vec<VecDeque<News>>>,
    /// Each rank's decision, dead ones included.
    decided: Vec<Option<Decision>>,
    /// How many messages a rank can still send before it dies.
    left: Vec<Option<usize>>,
}

impl Net {
    fn new(size: u32) -> Self {
        let n = size as usize;
        Self {
            ranks: (0..size).map(|rank| Machine::new(size, Some(rank))).collect(),
            alive: vec![true; n],
            queues: (0..n).map(|_| (0..n).map(|_| VecDeque::new()).collect()).collect(),
            decided: vec![None; n],
            left: vec![None; n],
        }
    }

    fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Sends a rank's messages, until it dies.
    fn send(&mut self, from: usize, to: Vec<To>) {
        for to in to {
            let message = self.ranks[from].message(to);
            for other in (0..self.size()).filter(|&other| other != from) {
                if to != To::All && to != To::One(u32::try_from(other).unwrap()) {
                    continue;
                }
                if self.left[from] == Some(0) {
                    self.kill(from);
                }
                if !self.alive[from] {
                    return;
                }
                self.left[from] = self.left[from].map(|left| left - 1);
                let from_rank = u32::try_from(from).unwrap();
                self.queues[from][other]
                    .push_back(News::SurvivorMessage(from_rank, message.clone()));
            }
        }
    }

    fn kill(&mut self, rank: usize) {
        if std::mem::replace(&mut self.alive[rank], false) {
            for other in 0..self.size() {
                self.queues[rank][other].push_back(News::Died(u32::try_from(rank).unwrap()));
            }
        }
    }

    fn arrive(&mut self, rank: usize, without: &[u32]) {
        let arrival =
            Arrival { next: rank as u64 + 10, without: without.to_vec(), ..Arrival::default() };
        let to = self.ranks[rank].arrive(u32::try_from(rank).unwrap(), arrival);
        self.send(rank, to);
        self.record(rank);
    }

    fn record(&mut self, rank: usize) {
        if let Some(decision) = self.ranks[rank].decision() {
            let known = self.decided[rank].get_or_insert_with(|| decision.clone());
            assert_eq!(known, decision, "rank {rank} decides twice");
        }
    }

    /// Delivers the next message from one rank to another; false if there is none.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some(news) = self.queues[from][to].pop_front() else { return false };
        if !self.alive[to] {
            return true;
        }
        let answers = match news {
            News::SurvivorMessage(from, message) => self.ranks[to].handle_message(from, message),
            News::Died(rank) => self.ranks[to].died(rank, "it died"),
        };
        self.send(to, answers);
        self.record(to);
        true
    }

    fn waits(&self, rank: usize) -> bool {
        let machine = &self.ranks[rank];
        self.alive[rank] && machine.decision().is_none() && machine.excluded_by().is_none()
    }

    /// Delivers everything in random order; then ranks that wait repeat their state.
    fn deliver_all(&mut self, random: &mut Random) {
        for _ in 0..64 {
            loop {
                let queues: Vec<_> = (0..self.size())
                    .flat_map(|from| (0..self.size()).map(move |to| (from, to)))
                    .filter(|&(from, to)| !self.queues[from][to].is_empty())
                    .collect();
                if queues.is_empty() {
                    break;
                }
                let (from, to) = queues[random.below(queues.len())];
                self.deliver(from, to);
            }
            if !(0..self.size()).any(|rank| self.waits(rank)) {
                return;
            }
            for rank in 0..self.size() {
                if self.waits(rank) {
                    self.send(rank, vec![To::All]);
                }
            }
        }
    }

    /// Loses some messages between living ranks, as a dead rank that forwarded them would.
    fn lose(&mut self, random: &mut Random) {
        for from in 0..self.size() {
            for to in 0..self.size() {
                self.queues[from][to]
                    .retain(|news| matches!(news, News::Died(_)) || random.below(2) == 0);
            }
        }
    }

    /// All decisions are equal, and every living rank has an outcome.
    fn check(&self, context: &str) {
        let mut decisions = self.decided.iter().flatten();
        if let Some(first) = decisions.next() {
            assert!(decisions.all(|other| other == first), "{context}: they differ");
            for rank in (0..self.size()).filter(|&rank| self.alive[rank]) {
                let is_in = first.members.contains(&u32::try_from(rank).unwrap());
                assert!(
                    is_in || self.ranks[rank].excluded_by().is_some(),
                    "{context}: {rank} is lost"
                );
            }
        }
        for rank in (0..self.size()).filter(|&rank| self.alive[rank]) {
            assert!(!self.waits(rank), "{context}: rank {rank} waits for ever");
        }
    }
}

#[test]
fn ranks_that_die_at_every_message() {
    for size in 1..=4 {
        let n = size as usize;
        for victim in 0..n {
            for at in 0..24 {
                for other in 0..n {
                    let mut net = Net::new(size);
                    net.left[victim] = Some(at);
                    if other != victim {
                        net.left[other] = Some(23 - at);
                    }
                    (0..n).for_each(|rank| net.arrive(rank, &[]));
                    net.deliver_all(&mut Random(at as u64));
                    net.check(&format!("{size} ranks, {victim} dies at {at}, {other} too"));
                }
            }
        }
    }
}

#[test]
fn deaths_and_losses_of_chance() {
    for seed in 0..20_000 {
        let random = &mut Random(seed);
        let size = 1 + random.below(6);
        let mut net = Net::new(u32::try_from(size).unwrap());
        let mut to_come: Vec<usize> = (0..size).collect();
        let deaths = random.below(size.min(4));
        for _ in 0..deaths {
            let victim = random.below(size);
            net.left[victim] = Some(random.below(12));
        }
        while !to_come.is_empty() {
            match random.below(3) {
                0 => {
                    let rank = to_come.swap_remove(random.below(to_come.len()));
                    if net.alive[rank] {
                        net.arrive(rank, &[]);
                    }
                }
                1 => {
                    let (from, to) = (random.below(size), random.below(size));
                    net.deliver(from, to);
                }
                _ if random.below(8) == 0 => {
                    net.kill(random.below(size));
                    net.lose(random);
                }
                _ => {}
            }
        }
        net.deliver_all(random);
        net.check(&format!("seed {seed}"));
    }
}

#[test]
fn an_excluded_rank_learns_so() {
    for seed in 0..2_000 {
        let random = &mut Random(seed);
        let mut net = Net::new(4);
        net.left[random.below(4)] = Some(random.below(12));
        // Rank 3 arrives too, although the others leave it out.
        for rank in [3, 1, 0, 2] {
            let without: &[u32] = if rank == 3 { &[] } else { &[3] };
            net.arrive(rank, without);
        }
        net.deliver_all(random);
        net.check(&format!("seed {seed}"));
        if net.alive[3] && net.alive[..3].contains(&true) {
            let told = net.ranks[3].excluded_by().and_then(|decision| decision.why_not(3));
            assert!(told.is_some_and(|why| why.contains("left it out")), "seed {seed}: {told:?}");
        }
    }
}

#[test]
fn a_rank_that_does_not_arrive_is_given_up() {
    for seed in 0..2_000 {
        let random = &mut Random(seed);
        let mut net = Net::new(4);
        let absent = random.below(4);
        for rank in (0..4).filter(|&rank| rank != absent) {
            net.arrive(rank, &[]);
        }
        net.deliver_all(random);
        assert!(net.decided.iter().all(Option::is_none), "seed {seed}");
        for rank in (0..4).filter(|&rank| rank != absent) {
            let to = net.ranks[rank].give_up("it did not come");
            net.send(rank, to);
            net.record(rank);
        }
        if random.below(2) == 0 {
            net.kill((absent + 1) % 4);
        }
        net.arrive(absent, &[]);
        net.deliver_all(random);
        let decisions: Vec<_> = net.decided.iter().flatten().collect();
        assert!(decisions.windows(2).all(|two| two[0] == two[1]), "seed {seed}");
        assert!(net.ranks[absent].excluded_by().is_some() || decisions[0].members.len() >= 3);
    }
}

#[test]
fn ranks_of_one_process_decide_when_the_last_one_comes() {
    let mut all = Machine::new(4, None);
    let arrival = |next| Arrival { next, ..Arrival::default() };
    assert_eq!((all.arrive(0, arrival(5)), all.decision()), (vec![To::All], None));
    let _ = all.arrive(2, arrival(7));
    let _ = all.died(1, "its thread panicked");
    assert_eq!((all.decision(), all.missing()), (None, vec![3]));
    let _ = all.arrive(3, arrival(6));
    let decision = all.decision().expect("all have come");
    assert_eq!((&decision.members[..], decision.next), (&[0, 2, 3][..], 7));
    assert_eq!(decision.lost, [(1, "its thread panicked".to_owned())]);
    // The decision is final.
    let decision = decision.clone();
    let _ = all.died(0, "later");
    assert_eq!(all.decision(), Some(&decision));
}

/// Keeps to whom a rank writes.
#[derive(Default)]
struct Sent(Mutex<Vec<Option<Rank>>>);

impl Wire for Sent {
    fn tell(&self, to: Option<Rank>, _: Vec<u8>) {
        self.0.lock().push(to);
    }

    fn listen(&self, _: Weak<dyn Listener>) {}
}

#[test]
fn a_rank_does_not_arrive_before_the_earlier_messages() {
    let survivors = Arc::new(Survivors::new(2, 0, Some(Arc::new(Sent::default()))));
    survivors.listen();
    let catches_up = |limit| survivors.catches_up(limit, || Ok(()));
    assert!(!catches_up(Duration::from_millis(5)).unwrap());
    let stopped = || Err(bad_invitation("it stops".into(), Site::caller()));
    survivors.catches_up(Duration::MAX, stopped).unwrap_err();
    survivors.caught_up();
    assert!(catches_up(Duration::ZERO).unwrap());
}

#[test]
fn proposals_of_ranks_that_do_not_exist_are_ignored() {
    // As it is encoded: an arrival, the accepted proposal, decided, asks for a reply.
    let message = |by: u32, members: &[u32], decided: bool| {
        let decision = Decision { members: members.into(), lost: vec![], divides: false, next: 0 };
        let arrival = Some(Arrival::default());
        postcard::to_stdvec(&(arrival, Some((by, decision)), decided, true)).expect("it encodes")
    };
    let start = || {
        let sent = Arc::new(Sent::default());
        let survivors = Survivors::new(3, 0, Some(sent.clone()));
        survivors.arrive(0, Arrival::default());
        sent.0.lock().clear();
        (survivors, sent)
    };
    let bad: [(u32, &[u32]); 5] =
        [(3, &[0, 1]), (1, &[0, 3]), (1, &[1, 0]), (1, &[0, 0]), (1, &[])];
    for (by, members) in bad {
        for decided in [false, true] {
            let (survivors, sent) = start();
            survivors.message(Rank(1), &message(by, members, decided));
            survivors.message(Rank(2), &message(by, members, decided));
            assert!(survivors.outcome(0).is_none(), "{by} of {members:?}");
            assert_eq!(*sent.0.lock(), [], "{by} of {members:?}");
        }
    }
    let (survivors, _) = start();
    survivors.message(Rank(1), &message(1, &[0, 1], true));
    assert!(matches!(survivors.outcome(0), Some(Ok(_))));
}
