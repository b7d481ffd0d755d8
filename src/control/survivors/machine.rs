//! The survivors' agreement as a state machine, without clocks, threads or a network.
//!
//! Deaths are detected eventually, and only deaths are. The lowest eligible rank coordinates. It
//! proposes the eligible ranks once all of them have arrived, and decides once all of them have
//! accepted. A new coordinator proposes again what it had accepted, so it decides what its
//! predecessor may have decided. Of two proposals the one of the higher rank wins, since ranks
//! coordinate in ascending order.
//!
//! A message is a rank's whole state, which only grows. So repetition and delay do no harm, and
//! repetition replaces messages that were lost with a rank that forwarded them.

use serde::{Deserialize, Serialize};

/// A rank's arrival at the agreement.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Arrival {
    /// The number of its next exchange.
    pub(crate) next: u64,
    /// The ranks that it wants to leave out.
    pub(crate) without: Vec<u32>,
    /// Its communicator is healthy and idle, and the backend can divide it.
    pub(crate) divides: bool,
    /// The call, for errors.
    pub(crate) context: String,
}

/// Who continues, and who does not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Decision {
    /// The survivors, in ascending order.
    pub(crate) members: Vec<u32>,
    /// The others, and why they are lost.
    pub(crate) lost: Vec<(u32, String)>,
    /// All members can divide the communicator, and no rank has died.
    pub(crate) divides: bool,
    /// The highest `next` of a member.
    pub(crate) next: u64,
}

impl Decision {
    fn has(&self, rank: u32) -> bool {
        self.members.binary_search(&rank).is_ok()
    }

    /// Why a rank is not a member.
    pub(crate) fn why_not(&self, rank: u32) -> Option<&str> {
        self.lost.iter().find(|(lost, _)| *lost == rank).map(|(_, why)| why.as_str())
    }
}

/// A rank's whole state.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct SurvivorMessage {
    arrival: Option<Arrival>,
    /// The accepted proposal, and its coordinator.
    accepted: Option<(u32, Decision)>,
    decided: bool,
    /// Asks ranks that know more to reply.
    wants_reply: bool,
}

impl SurvivorMessage {
    /// Whether a rank of so many can have sent it.
    pub(super) fn is_valid(&self, size: usize) -> bool {
        let exists = |rank: u32| (rank as usize) < size;
        self.accepted.as_ref().is_none_or(|(by, Decision { members, .. })| {
            let is_ascending = members.is_sorted_by(|a, b| a < b);
            exists(*by) && is_ascending && members.last().copied().is_some_and(exists)
        })
    }
}

/// The recipients of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To {
    All,
    One(u32),
}

/// The state of one rank, or of all ranks of one process.
pub(super) struct Machine {
    /// `None` if all ranks are in this process.
    own: Option<u32>,
    ranks: Vec<Known>,
    accepted: Option<(u32, Decision)>,
    decided: bool,
    /// A proposal or a decision that this rank is not a member of.
    excluded_by: Option<Decision>,
}

#[derive(Clone, Default)]
struct Known {
    arrival: Option<Arrival>,
    /// The coordinator of the proposal that it accepted last.
    accepted_from: Option<u32>,
    dead: Option<String>,
    /// It did not arrive in time.
    late: Option<String>,
}

impl Known {
    fn is_out(&self) -> bool {
        self.dead.is_some() || self.late.is_some() && self.arrival.is_none()
    }
}

impl Machine {
    pub(super) fn new(size: u32, own: Option<u32>) -> Self {
        let ranks = vec![Known::default(); size as usize];
        Self { own, ranks, accepted: None, decided: false, excluded_by: None }
    }

    pub(super) fn decision(&self) -> Option<&Decision> {
        self.accepted.as_ref().filter(|_| self.decided).map(|(_, decision)| decision)
    }

    /// The proposal or decision that excludes this rank.
    pub(super) fn excluded_by(&self) -> Option<&Decision> {
        self.excluded_by.as_ref()
    }

    pub(super) fn has_arrived(&self, rank: u32) -> bool {
        self.ranks[rank as usize].arrival.is_some()
    }

    /// Whether no other rank has arrived.
    pub(super) fn is_alone(&self, rank: u32) -> bool {
        (0..).zip(&self.ranks).all(|(other, known)| other == rank || known.arrival.is_none())
    }

    /// The ranks that have not arrived and are not known to be dead.
    pub(super) fn missing(&self) -> Vec<u32> {
        let ranks = (0..).zip(&self.ranks);
        let missing = ranks.filter(|(_, known)| known.arrival.is_none() && !known.is_out());
        missing.map(|(rank, _)| rank).collect()
    }

    /// This rank's message. A reply asks for none.
    pub(super) fn message(&self, to: To) -> SurvivorMessage {
        let arrival = self.own.and_then(|own| self.ranks[own as usize].arrival.clone());
        let (accepted, decided, wants_reply) = (self.accepted.clone(), self.decided, to == To::All);
        SurvivorMessage { arrival, accepted, decided, wants_reply }
    }

    /// A rank of this process arrives.
    #[must_use]
    pub(super) fn arrive(&mut self, rank: u32, arrival: Arrival) -> Vec<To> {
        self.ranks[rank as usize].arrival.get_or_insert(arrival);
        self.step();
        vec![To::All]
    }

    /// A rank is dead, or will never arrive.
    #[must_use]
    pub(super) fn died(&mut self, rank: u32, why: &str) -> Vec<To> {
        let Some(known) = self.ranks.get_mut(rank as usize) else { return Vec::new() };
        known.dead.get_or_insert_with(|| why.to_owned());
        match self.step() {
            true => vec![To::All],
            // Messages that the dead rank was forwarding may be lost.
            false if self.has_state() => vec![To::All],
            false => Vec::new(),
        }
    }

    /// Stops waiting for ranks that have not arrived.
    #[must_use]
    pub(super) fn give_up(&mut self, why: &str) -> Vec<To> {
        for known in self.ranks.iter_mut().filter(|known| known.arrival.is_none()) {
            known.late.get_or_insert_with(|| why.to_owned());
        }
        if self.step() { vec![To::All] } else { Vec::new() }
    }

    /// Handles another rank's state.
    #[must_use]
    pub(super) fn handle_message(&mut self, from: u32, message: SurvivorMessage) -> Vec<To> {
        let SurvivorMessage { arrival, accepted, decided, wants_reply } = message;
        let Some(known) = self.ranks.get_mut(from as usize) else { return Vec::new() };
        if known.arrival.is_none() {
            known.arrival = arrival;
        }
        known.accepted_from = known.accepted_from.max(accepted.as_ref().map(|(by, _)| *by));
        let mut answers = Vec::new();
        if let Some((by, decision)) = accepted {
            answers.extend(self.handle_proposal(by, decision, decided));
        }
        if self.step() {
            return vec![To::All];
        }
        // The sender does not know the decision, or that it is excluded.
        let lacks = self.decided && !decided;
        let out = self.accepted.as_ref().is_some_and(|(_, decision)| !decision.has(from));
        if wants_reply && (lacks || out) && answers.is_empty() {
            answers.push(To::One(from));
        }
        answers
    }

    /// Handles a proposal or a decision.
    fn handle_proposal(&mut self, by: u32, decision: Decision, decided: bool) -> Option<To> {
        if self.decided {
            return None;
        }
        let is_part = self.own.is_none_or(|own| decision.has(own));
        if decided && is_part {
            (self.accepted, self.decided) = (Some((by, decision)), true);
            return None;
        }
        // A coordinator that the accepted proposal excludes has no say.
        let leads = |(known, accepted): &(u32, Decision)| *known < by && accepted.has(by);
        if !decided && !self.accepted.as_ref().is_none_or(leads) {
            return None;
        }
        if !is_part {
            self.excluded_by = Some(decision);
            return None;
        }
        self.accepted = Some((by, decision));
        Some(To::One(by))
    }

    fn has_state(&self) -> bool {
        self.own.is_some_and(|own| self.has_arrived(own))
    }

    /// The first rank that wants to leave `rank` out, and its call.
    fn excluded(&self, rank: u32) -> Option<(u32, &str)> {
        let mut arrivals =
            (0..).zip(&self.ranks).filter_map(|(by, known)| Some((by, known.arrival.as_ref()?)));
        let (by, arrival) = arrivals.find(|(_, arrival)| arrival.without.contains(&rank))?;
        Some((by, &arrival.context))
    }

    fn may_survive(&self, rank: u32) -> bool {
        !self.ranks[rank as usize].is_out()
            && self.excluded(rank).is_none()
            && self.accepted.as_ref().is_none_or(|(_, accepted)| accepted.has(rank))
    }

    fn all(&self) -> impl Iterator<Item = u32> {
        0..u32::try_from(self.ranks.len()).unwrap_or(u32::MAX)
    }

    /// Advances this rank as the coordinator; whether its state has changed.
    fn step(&mut self) -> bool {
        if self.decided || self.excluded_by.is_some() {
            return false;
        }
        let own = match (self.own, self.all().find(|&rank| self.may_survive(rank))) {
            (Some(own), Some(first)) if own == first && self.has_arrived(own) => own,
            (None, Some(first)) => first,
            _ => return false,
        };
        match &self.accepted {
            Some((by, decision)) if *by == own => {
                let has_accepted = |&rank: &u32| {
                    let known = &self.ranks[rank as usize];
                    rank == own || known.dead.is_some() || known.accepted_from == Some(own)
                };
                self.decided = decision.members.iter().all(has_accepted);
                self.decided
            }
            Some((_, decision)) => {
                self.accepted = Some((own, decision.clone()));
                // A single rank needs no acceptance by others.
                self.step();
                true
            }
            None => {
                let members: Vec<u32> = self.all().filter(|&rank| self.may_survive(rank)).collect();
                if !members.iter().all(|&rank| self.has_arrived(rank)) {
                    return false;
                }
                self.accepted = Some((own, self.proposal(members)));
                // In one process, all ranks accept at once.
                self.decided = self.own.is_none();
                self.step();
                true
            }
        }
    }

    fn proposal(&self, members: Vec<u32>) -> Decision {
        let arrivals =
            members.iter().filter_map(|&rank| self.ranks[rank as usize].arrival.as_ref());
        let next = arrivals.clone().map(|arrival| arrival.next).max().unwrap_or(0);
        let lost: Vec<u32> =
            self.all().filter(|rank| members.binary_search(rank).is_err()).collect();
        let lives = |rank: &u32| !self.ranks[*rank as usize].is_out();
        let divides = arrivals.clone().all(|arrival| arrival.divides) && lost.iter().all(lives);
        let lost = lost.into_iter().map(|rank| (rank, self.why_lost(rank))).collect();
        Decision { members, lost, divides, next }
    }

    fn why_lost(&self, rank: u32) -> String {
        let known = &self.ranks[rank as usize];
        match (&known.dead, self.excluded(rank), &known.late) {
            (Some(why), ..) => why.clone(),
            (None, Some((by, context)), _) => format!("rank {by} left it out{context}"),
            (None, None, Some(why)) => why.clone(),
            (None, None, None) => "it is not known why".to_owned(),
        }
    }
}
