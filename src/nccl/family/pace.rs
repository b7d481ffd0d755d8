//! How far the ranks have come.

use std::sync::Weak;
use std::time::Instant;

use super::Family;
use crate::Rank;
use crate::backend::{Counts, Pace, Paced};

/// A rank that compares the others with itself.
pub(in crate::nccl) struct RankPace {
    pub(in crate::nccl) family: Weak<Family>,
    pub(in crate::nccl) rank: usize,
}

impl Family {
    fn compare(&self, own: usize, rank: usize, now: Instant) -> Paced {
        let (this, that, exchanges) = (self.of(own), self.of(rank), 0);
        let (collectives, there, back) = (this.issued(), this.sent(rank), this.received(rank));
        let mine = Counts { collectives, there, back, exchanges };
        let (collectives, there, back) = (that.issued(), that.received(own), that.sent(own));
        let theirs = Counts { collectives, there, back, exchanges };
        let heard = self.remote.as_ref().map_or(Some(now), |remote| remote.heard(rank));
        Paced { rank: Rank::at(rank), own: mine, theirs, heard }
    }
}

impl Pace for RankPace {
    fn ask(&self) {
        if let Some(family) = self.family.upgrade() {
            family.ask();
        }
    }

    fn others(&self) -> Vec<Paced> {
        let Some(family) = self.family.upgrade() else { return Vec::new() };
        let left: Vec<usize> = family.state.lock().left.iter().map(|left| left.rank).collect();
        let others = (0..family.size()).filter(|rank| *rank != self.rank && !left.contains(rank));
        let now = Instant::now();
        others.map(|rank| family.compare(self.rank, rank, now)).collect()
    }
}
