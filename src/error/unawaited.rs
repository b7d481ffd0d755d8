//! Signals that were never awaited.

use std::fmt;

use thiserror::Error;

use super::Site;
use crate::Rank;

/// Signals that this rank never awaited, detected when its communicator ends.
///
/// ```
/// use typed_nccl::{Error, Host, spmd};
///
/// spmd::<Host>(2, |place| {
///     let mut comm = place.init()?;
///     let (me, peer) = (comm.rank(), comm.ring(1));
///     let window = comm.window::<f32>(1)?;
///     comm.signal(peer)?; // nobody waits for it
///     let Err(Error::Unawaited(left)) = comm.finish() else { panic!("a signal is left") };
///     assert!(left.rank == me && left.signals[0].from == peer && left.signals[0].count == 1);
///     Ok(())
/// })
/// .expect("both ranks are told");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Unawaited {
    /// The communicator's name.
    pub name: &'static str,
    /// This rank.
    pub rank: Rank,
    /// The signals, by sender and slot.
    pub signals: Vec<Surplus>,
}

/// Signals of one sender left over in one slot.
///
/// Part of [`Unawaited`]:
///
/// ```
/// use typed_nccl::error::Surplus;
///
/// fn describe(left: &Surplus) -> String {
///     format!("{} signals of rank {}, the last one at {}", left.count, left.from, left.last)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Surplus {
    /// The rank that raised them.
    pub from: Rank,
    /// Their context.
    pub context: u32,
    /// Their number within the context.
    pub index: u32,
    /// How many are left.
    pub count: u64,
    /// Where the last of them was raised, by a put or by itself.
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
