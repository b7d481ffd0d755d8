//! Departures of ranks, and what they mean for the others.

use serde::{Deserialize, Serialize};

use super::gathering::is_gathered;
use super::net::Contribution;
use super::{FINISH, SURVIVORS, Topic};
use crate::Rank;
use crate::error::{Departed, Error};

/// A rank that has left.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    pub(crate) rank: u32,
    pub(crate) why: String,
    /// It takes part in the last exchange at most.
    pub(crate) dropped: bool,
    /// It takes part in nothing more.
    pub(crate) gone: bool,
    /// It was connecting, or may have been.
    pub(crate) unready: bool,
    /// Its communicator is poisoned: it can only join the survivors.
    pub(crate) stopped: bool,
    /// Its process has ended, or cannot be reached.
    pub(crate) died: bool,
    /// The exchange of the last split that it joined.
    pub(crate) split: u64,
}

impl Left {
    pub(crate) fn dead(rank: u32, why: String) -> Self {
        Self { died: true, ..Self::ended(rank, why, 0) }
    }

    /// A rank that ended in good order, after joining every split up to exchange `split`.
    pub(crate) fn ended(rank: u32, why: String, split: u64) -> Self {
        let (dropped, unready, stopped, died) = (false, false, false, false);
        Self { rank, why, dropped, gone: true, unready, stopped, died, split }
    }

    /// A rank that announces its own departure.
    pub(crate) fn of(rank: u32, why: String, how: Leaves, split: u64) -> Self {
        let ended = Self::ended(rank, why, split);
        match how {
            Leaves::Gone => ended,
            Leaves::Unready => Self { unready: true, ..ended },
            Leaves::Stopped => Self { gone: false, stopped: true, ..ended },
            Leaves::Dropped => Self { gone: false, dropped: true, ..ended },
        }
    }

    /// Whether it can never join the survivors.
    pub(crate) fn is_lost(&self) -> bool {
        self.gone || self.dropped
    }

    /// Whether it contributes to no more exchanges.
    pub(crate) fn is_out(&self) -> bool {
        self.gone || self.stopped
    }

    /// Whether ranks that connect with it cannot rely on becoming ready. A rank that was ready has
    /// sent them all that they need; one that died may not have.
    pub(crate) fn keeps_from_ready(&self) -> bool {
        self.unready || self.died
    }

    /// Whether it left before joining the child that exchange `seq` makes.
    pub(crate) fn misses_child(&self, seq: u64) -> bool {
        // A poisoned rank can still join the survivors. A gathering is not ordered with splits.
        let is_out = self.gone || self.stopped && seq != SURVIVORS;
        is_out && (self.died || !is_gathered(seq) && self.split < seq)
    }

    /// Whether an exchange of this topic waits for it in vain; `part` is its contribution.
    pub(crate) fn misses(&self, topic: Topic, part: Option<&Contribution>) -> bool {
        match part {
            None => self.is_out() || topic != FINISH,
            Some(part) => self.dropped && part.topic == FINISH && topic != FINISH,
        }
    }

    /// Whether this adds to what is known.
    pub(crate) fn adds_to(&self, known: Option<&Self>) -> bool {
        known.is_none_or(|known| {
            self.gone && !known.gone
                || self.dropped && !known.dropped
                || self.stopped && !known.stopped && !known.gone
        })
    }

    /// Merges with what is known; the first reason stays.
    pub(crate) fn after(&self, known: Option<&Self>) -> Self {
        let Some(known) = known else { return self.clone() };
        let (why, dropped) = (known.why.clone(), known.dropped | self.dropped);
        let (gone, stopped) = (known.gone | self.gone, known.stopped | self.stopped);
        let (died, unready) = (known.died | self.died, known.unready | self.unready);
        Self { why, dropped, gone, unready, stopped, died, ..self.clone() }
    }
}

/// How a rank leaves, as it announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaves {
    /// It takes part in nothing more.
    Gone,
    /// It takes part in nothing more, and may not have been ready.
    Unready,
    /// Its communicator is poisoned.
    Stopped,
    /// It takes part in the last exchange at most.
    Dropped,
}

/// The error for these departures, in order; `None` without any. If a rank has died, those that
/// stopped did so because of it, and are not lost.
pub(crate) fn failure(left: &[&Left], name: &'static str, during: Topic) -> Option<Error> {
    let has_died = left.iter().any(|left| left.died);
    let causes = left.iter().filter(|left| left.is_lost() || !has_died);
    let causes: Vec<_> = causes.map(|left| (Rank(left.rank), &*left.why)).collect();
    (!causes.is_empty()).then(|| Departed::each(&causes).error(name, during.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Leaves, Left, failure};
    use crate::error::Error;

    #[test]
    fn ranks_that_stopped_because_of_a_death_are_not_lost() {
        let stopped = Left::of(1, "told of a failure".to_owned(), Leaves::Stopped, 0);
        let dead = Left::dead(2, "gone".to_owned());
        let lost = |left: &[&Left]| match failure(left, "World", "barrier") {
            Some(Error::PeerFailed(failed)) => {
                failed.lost.iter().map(|rank| rank.index()).collect()
            }
            _ => Vec::new(),
        };
        assert_eq!(lost(&[&dead, &stopped]), [2]);
        assert_eq!(lost(&[&stopped]), [1]);
        assert!(lost(&[]).is_empty());
    }
}
