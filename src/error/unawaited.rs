//! Signals that nobody awaited.

use std::fmt;

use thiserror::Error;

use super::Site;
use crate::Rank;

/// Signals that this rank never awaited, known when its communicator ends.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Unawaited {
    /// The communicator's name.
    pub name: &'static str,
    /// This rank.
    pub rank: Rank,
    /// The signals, by who raised them and which one it is.
    pub signals: Vec<Surplus>,
}

/// Signals of one rank in one slot that are left over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Surplus {
    /// Who raised them.
    pub from: Rank,
    /// In which context.
    pub context: u32,
    /// Which signal of it.
    pub index: u32,
    /// How many are left.
    pub count: u64,
    /// Where the last of them was raised, by a put or alone.
    pub last: Site,
}

impl fmt::Display for Unawaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rank, signals } = self;
        write!(f, "finish: rank {rank} did not await all signals on {name}:")?;
        for (at, surplus) in signals.iter().enumerate() {
            let sep = if at == 0 { "" } else { ";" };
            let Surplus { from, context, index, count, last } = surplus;
            write!(f, "{sep} {count} from rank {from}")?;
            if (*context, *index) != (0, 0) {
                write!(f, " in context {context}, signal {index}")?;
            }
            write!(f, ", the last raised at {last}")?;
        }
        write!(
            f,
            "; a wait is missing, or the data was read too early: `comm.wait_signal(rank)`; puts whose signals nobody needs raise one that nobody awaits at all: `window.at(0).raising(comm.signal_in(0, 1)?)`; the communicator has ended"
        )
    }
}
