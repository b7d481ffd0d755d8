//! Reports of the ranks' state.

use std::fmt::Write;

use super::Family;
use super::departures::Left;
use super::refusals::{Turn, What};
use crate::Rank;
use crate::error::{Called, CallsByRanks};

impl Family {
    /// Whether a rank made a call that another rank has not made.
    pub(in crate::nccl) fn is_uneven(&self) -> bool {
        let ranks = 0..self.size();
        ranks.clone().any(|rank| self.of(rank).issued() != self.of(0).issued())
            || ranks.clone().any(|from| {
                ranks.clone().any(|to| self.of(from).sent(to) != self.of(to).received(from))
            })
    }

    /// Each rank's last calls, refusals and departures.
    pub(in crate::nccl) fn report(&self) -> String {
        let ranks = 0..self.size();
        let called: Vec<_> = ranks.map(|rank| self.of(rank).called(Rank::at(rank))).collect();
        let mut report =
            format!("the last {} calls of each rank on {}, in order:", Called::LAST, self.name);
        // Writing to a string succeeds.
        let _ = write!(report, "{}", CallsByRanks(&called));
        let state = self.state.lock();
        for Turn { by, what, reason, .. } in &state.refused {
            let what = match what {
                What::Collective => "a collective".to_owned(),
                What::Send(to) => format!("its send to rank {to}"),
                What::Recv(from) => format!("its receive from rank {from}"),
                What::Signal(to, _) => format!("its put or signal to rank {to}"),
            };
            let _ = write!(report, "\n  rank {by} refused {what}: {reason}");
        }
        for Left { rank, why, .. } in &state.left {
            let _ = write!(report, "\n  rank {rank} left: {why}");
        }
        report
    }
}
