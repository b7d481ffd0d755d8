//! Resolves the peers of operations.

use super::problems::OutOfBounds;
use super::{Active, Walk};
use crate::ir::{CommunicatorId, Peer, Transfer};
use crate::program::{Buckets, NoValue};

impl Walk<'_> {
    /// The ranks that send, and for each rank the senders to it, as indices among those.
    pub(super) fn senders(&mut self, this: &Transfer, active: &Active) -> (Vec<usize>, Buckets) {
        let mut senders = Vec::with_capacity(self.layout.size);
        let mut receivers = Vec::with_capacity(self.layout.size);
        for rank in (0..self.layout.size).filter(|rank| active.is(*rank)) {
            let peer = self.peer(rank, &this.peer, this.among);
            if let Some(Some(peer)) = self.found(rank, peer) {
                senders.push(rank);
                receivers.push(peer as usize);
            }
        }
        (senders, Buckets::new(self.layout.size, receivers.into_iter()))
    }

    /// The peer's number; `None` if the chain ends before it.
    pub(super) fn peer(
        &self,
        rank: usize,
        peer: &Peer,
        among: CommunicatorId,
    ) -> Result<Option<u32>, OutOfBounds> {
        let (env, among) = (self.env(rank), among.index());
        match env.case(peer)? {
            // Cases were resolved above.
            Peer::Cases(_) => Ok(None),
            Peer::Shift(hops) => {
                let there = self.layout.hop(rank, hops, &env)?;
                let (is_there, is_off) = (there.is_some() as u64, there.is_none() as u64);
                let counted = &self.off_the_end[self.number as usize];
                counted.set((counted.get().0 + is_there, counted.get().1 + is_off));
                Ok(there.map(|there| there as u32))
            }
            Peer::Rank(expr) => {
                let (at, size) = (env.eval(expr)?, self.layout.size);
                if !(0..size as i64).contains(&at) {
                    let are = if size == 1 { "is 1 rank" } else { &format!("are {size} ranks") };
                    let title = format!("this peer is {at}, and there {are}");
                    let help = "guard the step with a condition, or use a shift that wraps";
                    return Err(OutOfBounds::new(title, help));
                }
                if self.layout.first(among, at as usize) != self.layout.first(among, rank) {
                    let name = &self.plan.communicators[among].name;
                    let title = format!("rank {at} is not in `{name}` with this rank");
                    return Err(OutOfBounds::new(title, "name a rank of the communicator"));
                }
                Ok(Some(at as u32))
            }
        }
    }

    /// The index of a peer's distance on this rank: the same on all ranks, unless there are cases.
    pub(super) fn shift_of(&mut self, rank: usize, peer: &Peer, all: u32) -> Result<u32, NoValue> {
        match peer {
            Peer::Cases(_) => self.env(rank).case(peer).map(|peer| self.shift(rank, peer)),
            _ => Ok(all),
        }
    }
}
