//! Plans in a third-party library: under strict lints, with another name for `typed-nccl`, two in
//! one crate, one in a private module and one in a generic function.

#![deny(missing_docs, warnings)]

use nccl::{Communicator, Element, Numeric, Result, World};

nccl::plan! {
    /// Every rank passes its value to the next one.
    pub exchange<T: Element>(n: Ranks, len: usize) {
        in mine: [T; len];
        out before: [T; len];
        send mine to (rank + 1) % n into before;
    }
}

mod private {
    nccl::plan! {
        pub(crate) total<T: Numeric>(n: Ranks, len: usize) {
            inout x: [T; len];
            all_reduce(x, sum);
        }
    }
}

/// The sum over all ranks of their elements.
///
/// # Errors
/// The ranks bind the plan differently; a peer is lost.
pub fn total<T: Numeric, W: World>(comm: &mut Communicator<W>, x: &[T]) -> Result<Vec<T>> {
    let mut plan = private::total::bind::<T, _>(comm, private::total::Params { len: x.len() })?;
    let mut sum = nccl::Device::from_slice(comm.device(), x)?;
    plan.run(comm, private::total::Buffers { x: &mut sum })?;
    sum.to_vec()
}

/// The elements of the rank after the next.
///
/// # Errors
/// As for [`total`].
pub fn after_next<T: Element, W: World>(comm: &mut Communicator<W>, x: &[T]) -> Result<Vec<T>> {
    nccl::plan! {
        two_steps<T: Element>(n: Ranks, len: usize) {
            in mine: [T; len];
            out theirs: [T; len];
            send mine to (rank - 2) % n into theirs;
        }
    }
    let mut plan = two_steps::bind::<T, _>(comm, two_steps::Params { len: x.len() })?;
    let mine = nccl::Device::from_slice(comm.device(), x)?;
    let mut theirs = nccl::Device::zeros(comm.device(), x.len())?;
    plan.run(comm, two_steps::Buffers { mine: &mine, theirs: &mut theirs })?;
    theirs.to_vec()
}
