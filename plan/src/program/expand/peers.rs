//! Resolves the peers of operations.

use super::{Active, Walk};
use crate::ir::{Hop, Peer, Transfer};
use crate::program::NONE;

/// The senders to each rank, in order.
pub(super) struct Senders {
    begins: Vec<u32>,
    senders: Vec<u32>,
}

impl Senders {
    pub(super) fn range(&self, rank: usize) -> &[u32] {
        &self.senders[self.begins[rank] as usize..self.begins[rank + 1] as usize]
    }
}

impl Walk<'_> {
    /// The senders to each rank.
    pub(super) fn senders(&mut self, number: u32, this: &Transfer, active: &Active) -> Senders {
        let size = self.layout.size;
        let mut pairs = Vec::with_capacity(size);
        for rank in (0..size).filter(|rank| active.is(*rank)) {
            if let Some(peer) = self.peer(number, rank, &this.peer, this.among.index()) {
                pairs.push((peer, rank as u32));
            }
        }
        pairs.sort_unstable();
        let mut begins = vec![0_u32; size + 1];
        for (peer, _) in &pairs {
            begins[*peer as usize + 1] += 1;
        }
        for rank in 0..size {
            begins[rank + 1] += begins[rank];
        }
        Senders { begins, senders: pairs.into_iter().map(|(_, sender)| sender).collect() }
    }

    /// The peer's number; `None` if it does not exist, which is reported if it should.
    pub(super) fn peer(
        &mut self,
        number: u32,
        rank: usize,
        peer: &Peer,
        among: usize,
    ) -> Option<u32> {
        match self.case(number, rank, peer)? {
            // Cases were resolved above.
            Peer::Cases(_) => None,
            Peer::Shift(hops) => {
                let mut at = rank;
                for Hop { axis, by, wrap } in hops {
                    match self.env(rank).eval(by) {
                        Ok(by) => at = self.layout.shift(at, *axis, by, *wrap)?,
                        Err(why) => {
                            self.no_value(number, rank, why);
                            return None;
                        }
                    }
                }
                Some(at as u32)
            }
            Peer::Rank(expr) => match self.env(rank).eval(expr) {
                Ok(at) if (0..self.layout.size as i64).contains(&at) => {
                    let at = at as usize;
                    if self.layout.first(among, at) == self.layout.first(among, rank) {
                        return Some(at as u32);
                    }
                    let name = &self.plan.communicators[among].name;
                    let title = format!("rank {at} is not in `{name}` with this rank");
                    self.out_of_bounds(number, rank, title, "name a rank of the communicator");
                    None
                }
                Ok(at) => {
                    let size = self.layout.size;
                    let are = if size == 1 { "is 1 rank" } else { &format!("are {size} ranks") };
                    let title = format!("this peer is {at}, and there {are}");
                    let help = "guard the step with a condition, or use a shift that wraps";
                    self.out_of_bounds(number, rank, title, help);
                    None
                }
                Err(why) => {
                    self.no_value(number, rank, why);
                    None
                }
            },
        }
    }

    /// A peer by cases, resolved on this rank; `None` if its condition has no value, which is
    /// reported.
    fn case<'p>(&mut self, number: u32, rank: usize, peer: &'p Peer) -> Option<&'p Peer> {
        let mut peer = peer;
        while let Peer::Cases(cases) = peer {
            peer = match self.env(rank).holds(&cases.condition) {
                Ok(true) => &cases.then,
                Ok(false) => &cases.otherwise,
                Err(why) => {
                    self.no_value(number, rank, why);
                    return None;
                }
            };
        }
        Some(peer)
    }

    /// The index of a peer's distance on this rank: the same on all ranks, unless there are cases.
    pub(super) fn shift_of(&mut self, number: u32, rank: usize, peer: &Peer, all: u32) -> u32 {
        match peer {
            Peer::Cases(_) => match self.case(number, rank, peer) {
                Some(peer) => self.shift(rank, peer),
                None => NONE,
            },
            _ => all,
        }
    }
}
