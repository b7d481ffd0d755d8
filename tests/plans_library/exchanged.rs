//! The all-to-alls of the library, and its shift along nodes.

use typed_nccl::plans::{
    all_to_next, bruck_all_to_all, three_step_all_to_all, two_step_all_to_all,
};

use super::ranks::{RUNS, buffers, ranks, timings};

/// The element of a part that goes from one rank to another.
fn part(from: usize, to: usize, run: usize, at: usize) -> u32 {
    (1000 * from + 10 * to + 5 * run + at) as u32
}

macro_rules! transposes {
    ($plan:ident, $n:expr, $each:expr, $params:expr) => {
        ranks!($n, |comm| {
            let (n, each): (usize, usize) = ($n, $each);
            let rank = comm.rank().index();
            let mut exchange = $plan::bind::<u32, _>(&mut comm, $params)?;
            for timing in timings(&comm) {
                exchange.set_timing(timing);
                let list = |value: &dyn Fn(usize, usize) -> u32| -> Vec<u32> {
                    (0..n * each).map(|at| value(at / each, at % each)).collect()
                };
                let sent = |run| list(&|to, at| part(rank, to, run, at));
                let sent = buffers(comm.device(), (0..RUNS).map(sent))?;
                let mut got = buffers(comm.device(), (0..RUNS).map(|_| vec![7; n * each]))?;
                for (a, b) in sent.iter().zip(&mut got) {
                    exchange.run(&comm, $plan::Buffers { a, b })?;
                }
                for (run, b) in got.iter().enumerate() {
                    let expected = list(&|from, at| part(from, rank, run, at));
                    assert_eq!(b.to_vec()?, expected, "{timing:?}, run {run}");
                }
            }
        })
    };
}

#[test]
fn by_bruck() {
    for n in [1, 2, 3, 4, 5, 7, 8, 16] {
        transposes!(bruck_all_to_all, n, 2, bruck_all_to_all::Params { len: 2 * n });
    }
}

/// Nodes, and the ranks of each.
const NODES: [(usize, usize); 10] =
    [(1, 1), (1, 2), (2, 1), (3, 1), (1, 3), (2, 2), (2, 3), (3, 2), (4, 4), (5, 2)];

#[test]
fn in_two_steps() {
    for (nodes, local) in NODES {
        let params = two_step_all_to_all::Params { nodes, local, part: 3 };
        transposes!(two_step_all_to_all, nodes * local, 3, params);
    }
}

#[test]
fn in_three_steps() {
    for (nodes, local) in NODES {
        let params = three_step_all_to_all::Params { nodes, local, part: 3 };
        transposes!(three_step_all_to_all, nodes * local, 3, params);
    }
}

#[test]
fn to_the_next_rank() {
    for (nodes, local) in NODES {
        let len = 2 * local;
        ranks!(nodes * local, |comm| {
            let rank = comm.rank().index();
            let params = all_to_next::Params { nodes, local, len };
            let mut next = all_to_next::bind::<u32, _>(&mut comm, params)?;
            for timing in timings(&comm) {
                next.set_timing(timing);
                let own = |rank, run| (0..len).map(|at| part(rank, 0, run, at)).collect();
                let sent = buffers(comm.device(), (0..RUNS).map(|run| own(rank, run)))?;
                let mut got = buffers(comm.device(), (0..RUNS).map(|_| vec![7; len]))?;
                for (a, b) in sent.iter().zip(&mut got) {
                    next.run(&comm, all_to_next::Buffers { a, b })?;
                }
                for (run, b) in got.iter().enumerate() {
                    let expected: Vec<u32> = match rank.checked_sub(1) {
                        Some(before) => own(before, run),
                        None => vec![7; len],
                    };
                    assert_eq!(b.to_vec()?, expected, "{timing:?}, run {run}");
                }
            }
        });
    }
}
