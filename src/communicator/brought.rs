//! Communicators that another library made: which ranks bring one, and whether they fit.
//!
//! A rank here is one node of a control plane, which compares calls and hears of deaths; NCCL's
//! communicator has none. So the ranks meet by their seats as always, and take the communicators that
//! are there instead of making one. Each says what its own says of itself first: nothing is called with
//! them before all of them fit.

use crate::backend::Lifecycle;
use crate::{Device, World};

/// What a communicator says of itself: its rank, how many it has, and its GPU; or why it cannot be used.
pub(crate) type Says = Result<(i32, i32, i32), String>;

/// A communicator that another library made.
pub(super) struct Brought<W: World> {
    pub(super) says: Says,
    /// What takes it; none of one that cannot be used.
    pub(super) taken: Option<<<W::Device as Device>::Backend as Lifecycle>::Dividing>,
}

/// Which ranks bring communicators that are not the one of their seats, and what is wrong.
pub(super) fn misfit<'h>(
    ranks: impl ExactSizeIterator<Item = (&'h Option<Says>, u32)> + Clone,
) -> Option<(Vec<usize>, String)> {
    let brings = ranks.clone().filter(|(says, _)| says.is_some()).count();
    if brings == 0 {
        return None;
    }
    let size = ranks.len();
    let lacking = ranks.clone().enumerate().filter(|(_, (says, _))| says.is_none());
    let lacking: Vec<usize> = lacking.map(|(rank, _)| rank).collect();
    if !lacking.is_empty() {
        let why = "did not bring a communicator of NCCL's, as the others did: take the one that is there on all ranks, with `from_raw`, or on none";
        return Some((lacking, why.to_owned()));
    }
    ranks.enumerate().find_map(|(rank, (says, ordinal))| match says {
        Some(Err(why)) => Some((vec![rank], format!("brought a communicator that {why}"))),
        Some(Ok((its_rank, its_size, its_device))) => {
            let is = |theirs: i32, ours: usize| usize::try_from(theirs) == Ok(ours);
            let fits = is(*its_rank, rank) && is(*its_size, size) && is(*its_device, ordinal as usize);
            (!fits).then(|| {
                let why = format!(
                    "brought a communicator that is rank {its_rank} of {its_size} on cuda:{its_device}, to a seat of rank {rank} of {size} on cuda:{ordinal}: give each the seat and the device that it has"
                );
                (vec![rank], why)
            })
        }
        None => None,
    })
}
