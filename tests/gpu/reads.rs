//! Plans that read peers' windows, by the addresses that NCCL gives.

use typed_nccl::plan::Timing;
use typed_nccl::{CommConfig, Communicator, Cuda, Result};

use crate::common::{ranks, seconds};

#[path = "../reads/body.rs"]
mod body;

/// Also as a graph, and with the caller's windows.
pub(crate) fn every_plan() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().deadline(seconds(60)).signals(3).build();
        let builder = Communicator::builder().seat(seat).device(device).config(config);
        let mut comm = builder.build().connect()?;
        body::every_plan(&mut comm, |_| Timing::Early)?;
        comm.finish()
    })
    .map(drop)
}
