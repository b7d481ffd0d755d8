//! Attributes a rank's failure to the rank itself or to another one.
//!
//! Ranks fail together and in any order: a rank that waits for another may end before that one has
//! returned its error. The first cause is therefore not the rank that ended first, but the one that
//! failed without having been shown another's failure.

use std::any::Any;

use crate::error::{Error, Heard};
use crate::unwind;

/// The origin of a rank's failure. Lesser values are better evidence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Origin {
    /// The rank itself.
    Own,
    /// The rank itself or another one.
    Unsure,
    /// Another rank.
    Others,
}

impl Origin {
    /// The origin of an error that `rank` returned after it was shown errors of this severity.
    pub(super) fn of_error<E: 'static>(error: &E, rank: usize, heard: Heard) -> Self {
        match (error as &dyn Any).downcast_ref::<Error>() {
            Some(error) => Self::of(error, rank, heard),
            None => Self::after(heard),
        }
    }

    fn of(error: &Error, rank: usize, heard: Heard) -> Self {
        match error {
            // A foreign error may stand for one of ours.
            Error::Other(other) => {
                let ours = other.source.downcast_ref();
                ours.map_or_else(|| Self::after(heard), |ours| Self::of(ours, rank, heard))
            }
            // Whatever the reason, it was deliberate.
            Error::Abort(_) => Self::after(heard),
            // NCCL may have noticed a lost peer before this library did.
            Error::NcclFailed(_) => Self::Unsure.max(Self::after(heard)),
            Error::InitFailed(failed) => {
                let is_one = failed.ranks.iter().any(|named| named.index() == rank);
                if is_one || failed.ranks.is_empty() { Self::Own } else { Self::Others }
            }
            error => Self::after(error.heard()),
        }
    }

    /// The origin of any failure after errors of this severity.
    pub(super) fn after(heard: Heard) -> Self {
        match heard {
            Heard::Nothing => Self::Own,
            Heard::Report => Self::Unsure,
            Heard::Loss => Self::Others,
        }
    }

    /// The origin of a panic of a rank that was shown `told`. A panic that repeats that error
    /// (`unwrap`, `expect`, `panic!("{error}")`) has the error's origin; any other, such as a
    /// failed assertion, is a bug of its own.
    pub(super) fn of_panic(panic: &(dyn Any + Send), told: Option<&Error>) -> Self {
        let repeats = |told: &Error| unwind::message(panic).contains(&told.to_string());
        told.filter(|told| repeats(told)).map_or(Self::Own, |told| Self::after(told.heard()))
    }
}
