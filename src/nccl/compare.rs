//! Compares the ranks' calls. NCCL does not: calls that differ hang in it or give wrong data.

use std::ops::Range;

use typed_nccl_match::Log;

use super::family::Family;
use super::recorder::Leg;
use crate::Rank;
use crate::error::{Call, Error, Mismatch};

/// From here on, the configuration's digest holds the number of one of this library's kernels.
pub(super) const KERNELS: u8 = 56;

/// How far one rank's calls have been compared with another's.
pub(super) type Compared = [typed_nccl_match::Compared; 4];

impl Family {
    /// The first call in which `rank` and another rank differ. `compared` holds, for each other
    /// rank, how far earlier comparisons came.
    pub(super) fn desync(&self, rank: usize, compared: &mut [Compared]) -> Option<Error> {
        let others = compared.iter_mut().enumerate().filter(|(other, _)| *other != rank);
        others.into_iter().find_map(|(other, [collectives, legs, sent, received])| {
            self.collectives_differ(rank, other, collectives)
                .or_else(|| self.legs_differ(rank, other, legs))
                .or_else(|| self.transfers_differ(rank, other, sent))
                .or_else(|| self.transfers_differ(other, rank, received))
        })
    }

    fn collectives_differ(
        &self,
        rank: usize,
        other: usize,
        done: &mut typed_nccl_match::Compared,
    ) -> Option<Error> {
        let (own, theirs) = (self.of(rank), self.of(other));
        let differs = |number, (mine, here): (Call, u8), (their, there): (Call, u8)| {
            if !mine.matches(&their) {
                return Some(self.collective_mismatch(format!("collective #{number}"), number));
            }
            // The remaining bits describe the call's configuration.
            let (here, mine) = (here & 3, here >> 2);
            let (there, their) = (there & 3, there >> 2);
            if mine != their {
                let what = match mine.max(their) >= KERNELS {
                    true => format!(
                        "what carries out collective #{number}, a kernel of this library or not, alone or with others,"
                    ),
                    false => format!("the `CallConfig` of collective #{number}"),
                };
                return Some(self.collective_mismatch(what, number));
            }
            (here != there).then(|| {
                // In rank order, so that every rank reports the same.
                let mut each = [(rank, here), (other, there)];
                each.sort_by_key(|(rank, _)| *rank);
                let each = each.map(|(rank, memory)| describe(rank, memory)).join(", ");
                let what = format!("the memory of collective #{number} ({each})");
                self.collective_mismatch(what, number)
            })
        };
        let (ours, theirs) = (own.collectives(), theirs.collectives());
        done.next(ours, theirs, differs).or_else(|| {
            let unlike = ours.first_unlike(theirs)?;
            Some(self.unlike("collectives", rank, other, &unlike, own.call(unlike.start)))
        })
    }

    /// Kernels pair the legs of exchanges by number: what one rank sends to another in a leg, the
    /// other receives in the same leg.
    fn legs_differ(
        &self,
        rank: usize,
        other: usize,
        done: &mut typed_nccl_match::Compared,
    ) -> Option<Error> {
        // In rank order, so that every rank reports the same.
        let (rank, other) = (rank.min(other), rank.max(other));
        let (own, theirs) = (self.of(rank), self.of(other));
        let differs = |_, mine: Leg, their: Leg| {
            let crossed = || {
                crossed((rank, &mine), (other, &their))
                    .or_else(|| crossed((other, &their), (rank, &mine)))
            };
            let both = [(rank, mine.send), (other, their.send)];
            let alike = mine.send.signature() == their.send.signature();
            let place = mine.place;
            let (what, calls) = if (mine.place, mine.of) != (their.place, their.of) {
                (format!("how many legs an exchange has, {} or {},", mine.of, their.of), both)
            } else if let Some((how, calls)) = crossed() {
                (format!("leg {place} of an exchange, {how},"), calls)
            } else if !alike {
                (format!("leg {place} of an exchange"), both)
            } else {
                return None;
            };
            let calls = calls.map(|(rank, call)| (Rank::at(rank), call)).into();
            Some(self.mismatch(what, calls))
        };
        let (ours, theirs) = (own.legs(), theirs.legs());
        done.next(&ours, &theirs, differs).or_else(|| {
            let unlike = ours.first_unlike(&theirs)?;
            let first = ours.call(unlike.start).map(|leg| leg.send);
            Some(self.unlike("legs of exchanges", rank, other, &unlike, first))
        })
    }

    /// NCCL pairs the sends from one rank to another with the other's receives, in order.
    fn transfers_differ(
        &self,
        from: usize,
        to: usize,
        done: &mut typed_nccl_match::Compared,
    ) -> Option<Error> {
        let (sender, receiver) = (self.of(from), self.of(to));
        let differs = |number, (send, sent): (Call, u8), (recv, received): (Call, u8)| {
            let how = match send.signature() == recv.signature() {
                true if sent == received => return None,
                true => ", by a kernel of this library or not,",
                false => "",
            };
            let what = format!("transfer #{number} from rank {from} to rank {to}{how}");
            Some(self.mismatch(what, vec![(Rank::at(from), send), (Rank::at(to), recv)]))
        };
        let (sends, receives) = (sender.sends(to), receiver.receives(from));
        done.next(&sends, &receives, differs).or_else(|| {
            let (sends, receives) = (sends?, receives?);
            if let Some(unlike) = sends.first_unlike(receives) {
                let what = format!("transfers to rank {to}:");
                return Some(self.unlike(&what, from, to, &unlike, sender.send(to, unlike.start)));
            }
            let unlike = receives.first_unlike(sends)?;
            let first = receiver.receive(from, unlike.start);
            Some(self.unlike(&format!("transfers from rank {from}:"), to, from, &unlike, first))
        })
    }

    /// The difference between calls known by a digest only; `first` is this rank's first call of
    /// the block.
    fn unlike(
        &self,
        what: &str,
        rank: usize,
        other: usize,
        numbers: &Range<u64>,
        first: Option<Call>,
    ) -> Error {
        let (from, to) = (numbers.start, numbers.end - 1);
        let what = format!(
            "one of the {what} #{from} to #{to} of ranks {rank} and {other}, of which the first one is named here,"
        );
        self.mismatch(what, first.map(|call| (Rank::at(rank), call)).into_iter().collect())
    }

    fn collective_mismatch(&self, what: String, number: u64) -> Error {
        let calls =
            (0..self.size()).filter_map(|rank| Some((Rank::at(rank), self.of(rank).call(number)?)));
        self.mismatch(what, calls.collect())
    }

    fn mismatch(&self, what: String, calls: Vec<(Rank, Call)>) -> Error {
        Mismatch { name: self.name, what, calls, ended: true }.into()
    }
}

/// A leg that one rank sends and the other does not receive, or the reverse, with both calls.
fn crossed(
    (from, Leg { send, .. }): (usize, &Leg),
    (to, Leg { recv, .. }): (usize, &Leg),
) -> Option<(String, [(usize, Call); 2])> {
    let (goes, comes) = (send.peer == Some(Rank::at(to)), recv.peer == Some(Rank::at(from)));
    let named = |peer: Option<Rank>| {
        peer.map_or_else(|| "nobody".to_owned(), |peer| format!("rank {peer}"))
    };
    let how = match (goes, comes) {
        (true, false) => {
            let instead = named(recv.peer);
            format!("which rank {from} sends to rank {to} and rank {to} expects from {instead}")
        }
        (false, true) => {
            let instead = named(send.peer);
            format!("which rank {to} expects from rank {from} and rank {from} sends to {instead}")
        }
        _ => return None,
    };
    Some((how, [(from, *send), (to, *recv)]))
}

/// Which operands of a rank's call are in windows or registered.
fn describe(rank: usize, memory: u8) -> String {
    let what = match memory {
        0 => "neither in a window nor registered",
        1 => "what it sends in a window or registered",
        2 => "what it receives in a window or registered",
        _ => "both sides in windows or registered",
    };
    format!("rank {rank}: {what}")
}
