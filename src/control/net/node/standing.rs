//! Decides whether a rank is gone, and why; no other code does.
//!
//! The input is an observation ([`Sign`]) or another rank's report, with its time. The output is a
//! [`Verdict`] or [`News`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::super::message::{Left, cut};

/// How long a process doubts its own standing after a stop, in addition to six heartbeats.
const DOUBT: Duration = Duration::from_secs(6);

/// The number of refused connections per address that shows a death.
pub(super) const REFUSALS: u32 = 3;

pub(super) enum Sign {
    /// The link to a neighbour broke, or was silent for three heartbeats. If it `is_sure`, the
    /// neighbour has used it; otherwise the neighbour may have abandoned it and connected again.
    Lost { is_sure: bool },
    /// Consecutive refusals, and the number of addresses.
    Refuses { times: u32, addresses: u32 },
    /// How long it has not answered, and the limit.
    Silent { waited: Duration, most: Duration },
    /// It should have attached to this rank by now. A rank that has not been heard of yet may still
    /// be starting.
    Missing { has_arrived: bool },
}

/// The consequence of a [`Sign`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Undecided.
    Open,
    /// It gets time to come back.
    Awaited,
    Dead,
    /// This rank is the one that the others lost. It announces that, and leaves.
    Excluded(String),
}

/// The consequence of another rank's report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// Old, or about a communicator that this rank is excluded from.
    Known,
    /// New, to be forwarded.
    New(Left),
    /// The others took this rank for dead, for this reason.
    Excluded(String),
    /// This rank may be the lost one: kept until [`Standing::take_held`].
    Held,
}

/// See the module.
#[derive(Default)]
pub(super) struct Standing {
    own: u32,
    size: u32,
    heartbeat: Duration,
    left: BTreeMap<u32, Left>,
    /// The order in which departures became known: a cause precedes its consequences.
    order: Vec<u32>,
    /// Ranks that left in good order, which only their neighbours know.
    ended: BTreeSet<u32>,
    /// Those of them that have not said goodbye to this rank.
    silent: BTreeSet<u32>,
    /// Why the others took this rank for dead. Its observations of them no longer count.
    excluded: Option<String>,
    /// When this process resumed after a stop so long that the others may have taken it for dead.
    resumed: Option<Instant>,
    /// Reported deaths since then, not forwarded yet.
    held: Vec<Left>,
}

impl Standing {
    pub(super) fn new(own: u32, size: u32) -> Self {
        Self { own, size, ..Self::default() }
    }

    /// This process resumed after a stop of more than three intervals of `heartbeat`.
    pub(super) fn handle_resumed(&mut self, heartbeat: Duration, now: Instant) {
        (self.heartbeat, self.resumed) = (heartbeat, Some(now));
    }

    /// Whether the others may have excluded this rank without its knowledge: after a stop, none of
    /// them may have had a live connection to report it on.
    fn is_in_doubt(&self, now: Instant) -> bool {
        let doubt = self.heartbeat * 6 + DOUBT;
        self.resumed.is_some_and(|since| now - since < doubt) && self.excluded.is_none()
    }

    pub(super) fn judge(&self, rank: u32, sign: &Sign, reason: &str, now: Instant) -> Verdict {
        let is_dead = match *sign {
            _ if self.excluded.is_some() => return Verdict::Open,
            Sign::Lost { is_sure: false } => return Verdict::Awaited,
            Sign::Lost { is_sure: true } => true,
            Sign::Refuses { times, addresses } => times >= REFUSALS * addresses.max(1),
            Sign::Silent { waited, most } => waited >= most,
            Sign::Missing { has_arrived } => has_arrived,
        };
        match is_dead {
            false => Verdict::Open,
            true if self.is_in_doubt(now) => {
                Verdict::Excluded(stopped(&format!("rank {rank} was gone: {reason}")))
            }
            true => Verdict::Dead,
        }
    }

    /// Handles a departure that this rank found (`by` is `None`) or a neighbour reported. A
    /// neighbour that reports its own death was excluded.
    pub(super) fn handle_report(&mut self, mut left: Left, by: Option<u32>, now: Instant) -> News {
        left.why.truncate(cut(&left.why).len());
        let known = self.left.get(&left.rank);
        if left.rank >= self.size || self.excluded.is_some() || !left.adds_to(known) {
            return News::Known;
        }
        if left.rank == self.own {
            return News::Excluded(left.why);
        }
        if left.died && by.is_some() && self.is_in_doubt(now) {
            if by == Some(left.rank) {
                let rank = left.rank;
                let found = format!("rank {rank} said that the others had gone on without it");
                return News::Excluded(stopped(&found));
            }
            // The next report may be that this rank is the dead one.
            self.held.push(left);
            return News::Held;
        }
        self.record(&left);
        News::New(left)
    }

    /// Takes the deaths that were held, once everything that arrived during the stop has been read.
    pub(super) fn take_held(&mut self) -> Vec<Left> {
        std::mem::take(&mut self.held)
    }

    /// Records a departure, merged with what is known.
    pub(super) fn record(&mut self, left: &Left) {
        let rank = left.rank;
        let merged = left.after(self.left.get(&rank));
        if self.left.insert(rank, merged).is_none() {
            self.order.push(rank);
        }
    }

    /// A neighbour said goodbye. The departure is news unless it was `done`: it had finished, or
    /// all ranks had.
    pub(super) fn handle_goodbye(&mut self, rank: u32, done: bool) -> Option<Left> {
        self.ended.insert(rank);
        self.silent.remove(&rank);
        let is_known = done || self.left.get(&rank).is_some_and(|left| left.gone);
        (!is_known).then(|| Left::ended(rank, "its communicator has ended".to_owned(), u64::MAX))
    }

    /// A rank has ended, and said goodbye to others: its last words come from these.
    pub(super) fn handle_silent_goodbye(&mut self, rank: u32) {
        if self.ended.insert(rank) {
            self.silent.insert(rank);
        }
    }

    /// The ranks that have ended, and have not said goodbye to this one.
    pub(super) fn silent(&self) -> impl Iterator<Item = u32> {
        self.silent.iter().copied()
    }

    /// Excludes this rank; the reason as reported, or `None` if it was excluded before.
    pub(super) fn exclude(&mut self, why: &str) -> Option<&str> {
        if self.excluded.is_some() {
            return None;
        }
        Some(self.excluded.insert(format!("they took its process for dead: {why}")))
    }

    pub(super) fn excluded(&self) -> Option<&str> {
        self.excluded.as_deref()
    }

    /// The departures, in the order in which they became known.
    pub(super) fn left(&self) -> impl Iterator<Item = &Left> {
        self.order.iter().filter_map(|rank| self.left.get(rank))
    }

    pub(super) fn is_whole(&self) -> bool {
        self.left.is_empty()
    }

    /// Whether a rank was taken for dead.
    pub(super) fn has_died(&self, rank: u32) -> bool {
        self.left.get(&rank).is_some_and(|left| left.died)
    }

    /// Whether a rank sends nothing more.
    pub(super) fn is_away(&self, rank: u32) -> bool {
        self.ended.contains(&rank) || self.left.get(&rank).is_some_and(|left| left.gone)
    }

    /// All ranks that send nothing more.
    pub(super) fn away(&self) -> impl Iterator<Item = u32> {
        self.left.keys().chain(&self.ended).copied().filter(|rank| self.is_away(*rank))
    }
}

fn stopped(found: &str) -> String {
    format!("its process was stopped for more than three heartbeats, and then {found}")
}

#[cfg(test)]
mod tests {
    use super::{News, Sign, Standing, Verdict};
    use crate::control::net::message::{Leaves, Left};
    use std::time::{Duration, Instant};

    const SECOND: Duration = Duration::from_secs(1);

    fn standing() -> (Standing, Instant) {
        (Standing::new(1, 4), Instant::now())
    }

    fn dead(rank: u32) -> Left {
        Left::dead(rank, "gone".to_owned())
    }

    #[test]
    fn signs_of_death_have_their_limits() {
        let (standing, now) = standing();
        let judge = |sign| standing.judge(2, &sign, "why", now);
        assert_eq!(judge(Sign::Lost { is_sure: true }), Verdict::Dead);
        assert_eq!(judge(Sign::Lost { is_sure: false }), Verdict::Awaited);
        assert_eq!(judge(Sign::Refuses { times: 5, addresses: 2 }), Verdict::Open);
        assert_eq!(judge(Sign::Refuses { times: 6, addresses: 2 }), Verdict::Dead);
        assert_eq!(judge(Sign::Silent { waited: SECOND, most: SECOND * 3 }), Verdict::Open);
        assert_eq!(judge(Sign::Silent { waited: SECOND * 3, most: SECOND * 3 }), Verdict::Dead);
        assert_eq!(judge(Sign::Missing { has_arrived: false }), Verdict::Open);
        assert_eq!(judge(Sign::Missing { has_arrived: true }), Verdict::Dead);
    }

    #[test]
    fn news_counts_once_and_deaths_stay_in_their_order() {
        let (mut standing, now) = standing();
        assert_eq!(standing.handle_report(dead(3), None, now), News::New(dead(3)));
        assert_eq!(standing.handle_report(dead(3), Some(2), now), News::Known);
        assert_eq!(standing.handle_report(dead(4), Some(2), now), News::Known);
        let stopped = Left::of(0, "because of 3".to_owned(), Leaves::Stopped, 0);
        assert_eq!(standing.handle_report(stopped.clone(), Some(0), now), News::New(stopped));
        assert!(standing.left().map(|left| left.rank).eq([3, 0]));
        assert!(standing.is_away(3) && standing.has_died(3) && !standing.is_away(0));
    }

    #[test]
    fn a_process_that_was_stopped_doubts_itself_first() {
        let (mut standing, now) = standing();
        standing.handle_resumed(SECOND, now);
        let judge = |at| standing.judge(2, &Sign::Lost { is_sure: true }, "why", at);
        assert!(
            matches!(judge(now), Verdict::Excluded(why) if why.contains("rank 2 was gone: why"))
        );
        assert_eq!(judge(now + SECOND * 12), Verdict::Dead);
        assert_eq!(standing.handle_report(dead(3), Some(2), now), News::Held);
        assert_eq!(standing.take_held(), [dead(3)]);
        assert!(matches!(standing.handle_report(dead(2), Some(2), now), News::Excluded(_)));
        assert_eq!(standing.handle_report(dead(3), None, now), News::New(dead(3)));
    }

    #[test]
    fn a_rank_that_is_excluded_judges_nobody() {
        let (mut standing, now) = standing();
        assert_eq!(
            standing.handle_report(dead(1), Some(0), now),
            News::Excluded("gone".to_owned())
        );
        assert!(standing.exclude("gone").is_some() && standing.exclude("again").is_none());
        let sign = Sign::Lost { is_sure: true };
        assert_eq!(standing.judge(2, &sign, "why", now), Verdict::Open);
        assert_eq!(standing.handle_report(dead(2), None, now), News::Known);
        assert!(standing.is_whole() && standing.excluded().is_some());
    }

    #[test]
    fn a_goodbye_is_news_only_of_a_rank_that_was_not_done() {
        let (mut standing, _) = standing();
        assert_eq!(standing.handle_goodbye(2, true), None);
        assert!(standing.handle_goodbye(3, false).is_some_and(|left| left.gone && !left.died));
        assert!(standing.away().eq([2, 3]));
    }
}
