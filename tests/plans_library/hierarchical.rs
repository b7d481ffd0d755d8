//! Sums within nodes and between them.

use typed_nccl::plans::hierarchical_all_reduce;

use super::ranks::{RUNS, buffers, ranks, timings};

fn summed<T: typed_nccl::Numeric + PartialEq>(nodes: usize, local: usize, value: fn(usize) -> T) {
    let n = nodes * local;
    ranks!(n, |comm| {
        let len = 3 * local;
        let own = |rank: usize, run: usize, at: usize| rank + 2 * run + at;
        let rank = comm.rank().index();
        let params = hierarchical_all_reduce::Params { nodes, local, len };
        let mut reduce = hierarchical_all_reduce::bind::<T, _>(&mut comm, params)?;
        for timing in timings(&comm) {
            reduce.set_timing(timing);
            let values = |run| (0..len).map(|at| value(own(rank, run, at))).collect();
            let mut all = buffers(comm.device(), (0..RUNS).map(values))?;
            for x in &mut all {
                reduce.run(&comm, hierarchical_all_reduce::Buffers { x })?;
            }
            for (run, x) in all.iter().enumerate() {
                let sum = |at| value((0..n).map(|rank| own(rank, run, at)).sum());
                assert_eq!(x.to_vec()?, (0..len).map(sum).collect::<Vec<T>>(), "{timing:?}");
            }
        }
    });
}

#[test]
fn within_nodes_and_between_them() {
    let meshes =
        [(1, 2), (2, 1), (3, 1), (1, 3), (2, 2), (1, 5), (2, 3), (3, 2), (7, 1), (2, 4), (4, 2)];
    for (nodes, local) in meshes {
        summed::<f64>(nodes, local, |x| x as f64);
        summed::<u32>(nodes, local, |x| x as u32);
    }
}
