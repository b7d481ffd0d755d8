//! Gives the ranks in an error the generation of the communicator that reports it.
//!
//! Below the typed layer a rank is a number. A communicator that continues without some of its
//! ranks renumbers the others. Numbers in its errors then become ranks of the new generation, so
//! that a program can compare them with its own ranks.

use super::{ArgumentFault, Call, Error};
use crate::Rank;
use crate::rank::Generation;

impl Error {
    /// Assigns this generation to all ranks of the error.
    pub(crate) fn numbered(mut self, generation: Generation) -> Self {
        // Numbers are ranks of the first generation already.
        if !generation.is_first() {
            self.each_rank(&|rank| *rank = generation.of(*rank));
        }
        self
    }

    fn each_rank(&mut self, set: &impl Fn(&mut Rank)) {
        let in_call = |call: &mut Call| call.root.iter_mut().chain(&mut call.peer).for_each(set);
        match self {
            Self::PeerFailed(it) => it.lost.iter_mut().for_each(set),
            Self::Deadlock(it) => it.ranks.iter_mut().for_each(set),
            Self::InitFailed(it) => it.ranks.iter_mut().for_each(set),
            Self::Abort(it) => set(&mut it.by),
            Self::Revocation(it) => set(&mut it.by),
            Self::Excluded(it) => set(&mut it.rank),
            Self::Mismatch(it) => it.calls.iter_mut().for_each(|(rank, call)| {
                set(rank);
                in_call(call);
            }),
            Self::Refused(it) => {
                set(&mut it.by);
                in_call(&mut it.call);
                it.reason.each_rank(set);
            }
            Self::Hazard(it) => {
                set(&mut it.rank);
                if let Some(no_order) = &mut it.no_order {
                    set(&mut no_order.from);
                    set(&mut no_order.other.rank);
                    in_call(&mut no_order.put);
                }
            }
            Self::Unawaited(it) => {
                set(&mut it.rank);
                it.signals.iter_mut().for_each(|surplus| set(&mut surplus.from));
            }
            Self::ValueMismatch(it) => set(&mut it.rank),
            Self::OutsideWindow(it) => set(&mut it.peer),
            Self::TooManySignals(it) => set(&mut it.peer),
            Self::SelfTransfer(it) => set(&mut it.rank),
            Self::BadSplits(it) => set(&mut it.rank),
            Self::SplitsTooLong(it) => set(&mut it.rank),
            Self::NoBuffer(it) => set(&mut it.root),
            Self::BadArgument(it) => {
                if let ArgumentFault::OtherWindow { by, .. } = &mut it.why {
                    set(by);
                }
            }
            _ => {}
        }
    }
}
