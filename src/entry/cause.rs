//! Where a rank's failure comes from: from the rank itself, or from what another one did.
//!
//! Ranks fail together, and in any order: one that waits for another may have ended before that one has
//! returned its error. So the first cause is not who ended first, but who was not told of anybody else.

use std::any::Any;

use crate::error::{Error, Heard};
use crate::unwind;

/// Where a rank's failure comes from. The least tells most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Origin {
    /// From the rank itself.
    Own,
    /// From the rank itself or from another one.
    Unsure,
    /// From another rank.
    Others,
}

impl Origin {
    /// Of an error that `rank` returned which had been told so much.
    pub(super) fn of_error<E: 'static>(error: &E, rank: usize, heard: Heard) -> Self {
        match (error as &dyn Any).downcast_ref::<Error>() {
            Some(error) => Self::of(error, rank, heard),
            None => Self::after(heard),
        }
    }

    fn of(error: &Error, rank: usize, heard: Heard) -> Self {
        match error {
            // It may stand for one of ours.
            Error::Other(other) => {
                let ours = other.source.downcast_ref();
                ours.map_or_else(|| Self::after(heard), |ours| Self::of(ours, rank, heard))
            }
            // Whatever its reason, somebody wanted it.
            Error::Abort(_) => Self::after(heard),
            // NCCL may have seen that a peer is gone before we were told.
            Error::NcclFailed(_) => Self::Unsure.max(Self::after(heard)),
            Error::InitFailed(failed) => {
                let is_one = failed.ranks.iter().any(|named| named.index() == rank);
                if is_one || failed.ranks.is_empty() { Self::Own } else { Self::Others }
            }
            error => Self::after(error.heard()),
        }
    }

    /// Of whatever comes from who was told so much.
    pub(super) fn after(heard: Heard) -> Self {
        match heard {
            Heard::Nothing => Self::Own,
            Heard::Report => Self::Unsure,
            Heard::Loss => Self::Others,
        }
    }

    /// Of a panic on a thread that was told this. One that says no more than that (`unwrap`, `expect`)
    /// comes from there; any other, a failed assertion say, is a bug of its own.
    pub(super) fn of_panic(panic: &(dyn Any + Send), told: Option<&Error>) -> Self {
        let of = |told: &Error| unwind::message(panic).ends_with(&format!(": {told}"));
        told.filter(|told| of(told)).map_or(Self::Own, |told| Self::after(told.heard()))
    }
}
