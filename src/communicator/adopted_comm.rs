//! Communicators that another library made: which ranks bring one, and whether they fit.
//!
//! Each rank needs a node of the control plane, which compares calls and reports deaths; an NCCL
//! communicator brings none. So ranks meet by their seats as usual, and adopt the existing
//! communicators instead of creating one. Each rank first reports the rank, size and device of its
//! communicator, so that no NCCL call is made before all of them fit.

use crate::backend::{Lifecycle, Says};
use crate::{Device, World};

/// A communicator that another library made.
pub(super) struct AdoptedComm<W: World> {
    pub(super) says: Says,
    /// The handle that adopts it; `None` if it cannot be used.
    pub(super) taken: Option<<<W::Device as Device>::Backend as Lifecycle>::Dividing>,
}

/// Finds the ranks whose communicator does not fit their seat, and why.
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
