//! Cycles through calls in which threads wait.

use typed_nccl::Sum;

use super::common::{ranks, tell};

#[test]
fn a_collective_on_one_rank_and_a_barrier_on_the_other() {
    let first = line!();
    let outcomes = ranks(2, |comm| {
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        if comm.rank().index() == 0 {
            comm.all_reduce_in_place(&mut x, Sum)?; // first + 4
            comm.sync(comm.stream())?; // first + 5
        }
        comm.barrier()?; // first + 7
        comm.finish()
    });
    let (reduce, sync, barrier) = (first + 4, first + 5, first + 7);
    tell(
        &outcomes,
        file!(),
        &format!(
            "rank 0 and rank 1 wait for each other\n  \
             #:{reduce}: rank 0 calls all_reduce of 4 f32 and waits until rank 1 does too, which \
             it has not called\n  \
             #:{barrier}: rank 1 is in `barrier` and waits for rank 0, which has not called it\n  \
             #:{sync}: rank 0 is in `sync` until its stream is done\n\
             help: all ranks must make the same calls in the same order"
        ),
    );
}
