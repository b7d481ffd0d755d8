//! Along a tree from rank 0.

use typed_nccl::Primitive;
use typed_nccl::plans::tree_broadcast;

use super::ranks::{RUNS, buffers, ranks, timings};

fn spread<T: Primitive>(n: usize, value: fn(usize) -> T) {
    ranks!(n, |comm| {
        const LEN: usize = 6;
        let own = |rank: usize, run: usize| -> Vec<T> {
            (0..LEN).map(|at| value(20 * rank + run + at)).collect()
        };
        let params = tree_broadcast::Params { len: LEN };
        let mut broadcast = tree_broadcast::bind::<T, _>(&mut comm, params)?;
        for timing in timings(&comm) {
            broadcast.set_timing(timing);
            let rank = comm.rank().index();
            let mut all = buffers(comm.device(), (0..RUNS).map(|run| own(rank, run)))?;
            for x in &mut all {
                broadcast.run(&comm, tree_broadcast::Buffers { x })?;
            }
            for (run, x) in all.iter().enumerate() {
                assert_eq!(x.to_vec()?, own(0, run), "{timing:?}, run {run}");
            }
        }
    });
}

#[test]
fn along_a_tree() {
    for n in (1..=8).chain([11, 16]) {
        spread::<u8>(n, |at| (at % 251) as u8);
        spread::<f64>(n, |at| at as f64);
    }
}
