//! Plans whose messages have other lengths in each run, on GPUs.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use typed_nccl::{Cuda, Result};

use crate::common::{connect, ranks};

#[path = "../passed/body.rs"]
mod body;

pub(crate) fn each_run() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        assert!(!body::runs(&mut comm, |run| run == 12)?);
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn a_rank_that_leaves() -> Result<()> {
    let told = AtomicUsize::new(0);
    let n = ranks()?.max(2);
    Cuda::spmd(n, |place| -> Result<()> {
        let mut comm = connect(place, 60)?;
        let is_last = comm.rank().index() + 1 == n;
        if body::runs(&mut comm, |run| is_last && run == 3)? {
            told.fetch_add(1, SeqCst);
        }
        comm.abort();
        Ok(())
    })?;
    assert_eq!(told.into_inner(), n - 1);
    Ok(())
}
