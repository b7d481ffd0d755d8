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
        let (there, among) = (self.owner(rank, peer)?, among.index());
        match (self.env(rank).case(peer)?, there) {
            (Peer::Shift(_), _) => {
                let counted = &self.off_the_end[self.number as usize];
                let (is_there, is_off) = counted.get();
                let more = u64::from(there.is_some());
                counted.set((is_there + more, is_off + 1 - more));
            }
            (Peer::Rank(_), Some(at))
                if self.layout.first(among, at) != self.layout.first(among, rank) =>
            {
                let name = &self.plan.communicators[among].name;
                let title = format!("rank {at} is not in `{name}` with this rank");
                return Err(OutOfBounds::new(title, "name a rank of the communicator"));
            }
            _ => {}
        }
        Ok(there.map(|there| there as u32))
    }

    /// The rank that is a peer, in whatever communicator.
    pub(super) fn owner(&self, rank: usize, peer: &Peer) -> Result<Option<usize>, OutOfBounds> {
        let env = self.env(rank);
        match env.case(peer)? {
            // Cases were resolved above.
            Peer::Cases(_) => Ok(None),
            Peer::Shift(hops) => Ok(self.layout.hop(rank, hops, &env)?),
            Peer::Rank(number) => {
                let (at, size) = (env.eval(number)?, self.layout.size);
                if let Some(rank) = usize::try_from(at).ok().filter(|at| *at < size) {
                    return Ok(Some(rank));
                }
                let are = if size == 1 { "is 1 rank" } else { &format!("are {size} ranks") };
                let title = format!("this peer is {at}, and there {are}");
                let help = "guard the step with a condition, or use a shift that wraps";
                Err(OutOfBounds::new(title, help))
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
