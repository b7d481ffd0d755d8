//! A communicator of processes ends while another of theirs is at work.

use typed_nccl::{Communicator, Device, Result, Sum, launch, tag};

use crate::machine::{Test, output};

tag!(Other);

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a_communicator_ends_before_the_other_rank_can_destroy_it",
    program: || launch!(ends),
    test: |run| {
        let mut command = run.on_gpus();
        command.env("TYPED_NCCL", "cuda:2");
        let ended = output(command);
        assert!(ended.status.success(), "{ended:?}");
    },
}];

/// From 2.31 on NCCL destroys a communicator only when the other processes do, and rank 1 does once
/// its GPU is idle: after a call that rank 0 makes when it has ended its own.
fn ends<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let other = comm.split::<Other>(0, 0)?;
    let mut x = comm.device().from_slice(&[1.0_f32; 8])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.sync(comm.stream())?;
    if comm.rank().index() == 1 {
        comm.all_reduce_in_place(&mut x, Sum)?;
        other.finish()?;
    } else {
        other.finish()?;
        comm.all_reduce_in_place(&mut x, Sum)?;
    }
    assert_eq!(x.to_vec()?, [4.0; 8]);
    comm.finish()
}
