//! The all-reduces of the library, against sums in plain Rust: exact ones of integers, and ones of
//! floats of which every rank gets the same bits.

use typed_nccl::plans::{
    double_tree_all_reduce, doubling_all_reduce, halving_all_reduce, one_shot_all_reduce,
    ring_all_reduce, torus_all_reduce, tree_all_reduce, two_shot_all_reduce,
};
use typed_nccl::{Numeric, bf16};

use super::ranks::{RUNS, buffers, early, ranks, timings};

/// What a rank has in a run.
fn own(rank: usize, run: usize, at: usize) -> usize {
    rank + 2 * run + at % 3
}

macro_rules! sums {
    ($plan:ident, $n:expr, $type:ty, $value:expr, $params:expr, $len:expr, $timings:ident) => {{
        let (n, value): (usize, fn(usize) -> $type) = ($n, $value);
        ranks!(n, |comm| {
            let rank = comm.rank().index();
            let mut reduce = $plan::bind::<$type, _>(&mut comm, $params)?;
            for timing in $timings(&comm) {
                reduce.set_timing(timing);
                let values = |run| (0..$len).map(|at| value(own(rank, run, at))).collect();
                let mut all = buffers(comm.device(), (0..RUNS).map(values))?;
                for x in &mut all {
                    reduce.run(&comm, $plan::Buffers { x })?;
                }
                for (run, x) in all.iter().enumerate() {
                    let sum = |at| value((0..n).map(|rank| own(rank, run, at)).sum());
                    let expected: Vec<$type> = (0..$len).map(sum).collect();
                    assert_eq!(x.to_vec()?, expected, "{timing:?}, run {run}");
                }
            }
        });
    }};
}

/// Of several types, whose sums are exact; one of them with every timing.
macro_rules! all_sums {
    ($plan:ident, $n:expr, $params:expr, $len:expr) => {{
        sums!($plan, $n, i32, |x| x as i32, $params, $len, timings);
        sums!($plan, $n, u8, |x| x as u8, $params, $len, early);
        sums!($plan, $n, f64, |x| x as f64, $params, $len, early);
        sums!($plan, $n, bf16, |x| bf16::from_f32(x as f32), $params, $len, early);
    }};
}

#[test]
fn around_a_ring() {
    for n in [1, 2, 3, 4, 7, 8, 16] {
        all_sums!(ring_all_reduce, n, ring_all_reduce::Params { len: 3 * n }, 3 * n);
    }
}

#[test]
fn along_a_tree() {
    for n in [1, 2, 3, 4, 7, 8, 16] {
        all_sums!(tree_all_reduce, n, tree_all_reduce::Params { len: 5 }, 5);
    }
}

#[test]
fn along_two_trees() {
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 16] {
        let params = |pieces| double_tree_all_reduce::Params { len: 6, pieces };
        all_sums!(double_tree_all_reduce, n, params(1), 6);
        sums!(double_tree_all_reduce, n, i32, |x| x as i32, params(3), 6, timings);
    }
}

#[test]
fn in_one_shot_and_in_two() {
    for n in [1, 2, 3, 4, 7, 8, 16] {
        all_sums!(one_shot_all_reduce, n, one_shot_all_reduce::Params { len: 5 }, 5);
        all_sums!(two_shot_all_reduce, n, two_shot_all_reduce::Params { len: 2 * n }, 2 * n);
    }
}

#[test]
fn by_halving_and_doubling() {
    for n in [1, 2, 4, 8, 16] {
        all_sums!(doubling_all_reduce, n, doubling_all_reduce::Params { len: 5 }, 5);
        all_sums!(halving_all_reduce, n, halving_all_reduce::Params { len: 3 * n }, 3 * n);
    }
}

#[test]
fn along_rows_and_columns() {
    for (rows, cols) in [(1, 1), (1, 2), (3, 1), (2, 2), (1, 7), (2, 4), (4, 4)] {
        let (n, len) = (rows * cols, 2 * rows * cols);
        all_sums!(torus_all_reduce, n, torus_all_reduce::Params { rows, cols, len }, len);
    }
}

/// Sums that depend on their order are the same on all ranks.
#[test]
fn every_rank_gets_the_same_bits() {
    const LEN: usize = 24;
    fn rounded<T: Numeric>(x: usize, value: fn(f32) -> T) -> T {
        value(1.0 / (3 + x) as f32)
    }
    macro_rules! alike {
        ($($plan:ident $(, $more:ident: $value:expr)? => $ranks:expr;)+) => {$(
            for n in $ranks {
                ranks!(n, |comm| {
                    let rank = comm.rank().index();
                    let params = $plan::Params { len: LEN $(, $more: $value)? };
                    let mut reduce = $plan::bind(&mut comm, params)?;
                    let values = (0..LEN).map(|at| rounded(17 * rank + at, |x| x));
                    let mut x = comm.device().from_slice(&values.collect::<Vec<f32>>())?;
                    reduce.run(&comm, $plan::Buffers { x: &mut x })?;
                    let mut all = comm.device().zeros::<f32>(LEN * n)?;
                    comm.all_gather(&x, &mut all)?;
                    let all = all.to_vec()?;
                    for other in all.chunks(LEN) {
                        assert_eq!(other, &all[..LEN]);
                    }
                });
            }
        )+};
    }
    alike! {
        ring_all_reduce => [2, 3, 4, 8];
        tree_all_reduce => [2, 3, 7, 8];
        double_tree_all_reduce, pieces: 3 => [2, 3, 7, 8];
        one_shot_all_reduce => [2, 3, 7, 8];
        two_shot_all_reduce => [2, 3, 4, 8];
        doubling_all_reduce => [2, 4, 8];
        halving_all_reduce => [2, 4, 8];
    }
}

#[test]
fn other_numbers_of_ranks_are_refused_by_name() {
    let told = |error: Option<typed_nccl::Error>| error.map(|error| error.to_string());
    ranks!(3, |comm| {
        let params = doubling_all_reduce::Params { len: 2 };
        let found = told(doubling_all_reduce::bind::<f32, _>(&mut comm, params).err());
        let found = found.unwrap_or_default();
        assert!(found.contains("`n` is 3 ranks, and the plan is for powers of 2"), "{found}");
        let params = halving_all_reduce::Params { len: 3 };
        let found = told(halving_all_reduce::bind::<f32, _>(&mut comm, params).err());
        assert!(found.unwrap_or_default().contains("`n` is 3 ranks"));
        let params = two_shot_all_reduce::Params { len: 4 };
        let found = told(two_shot_all_reduce::bind::<f32, _>(&mut comm, params).err());
        assert!(found.unwrap_or_default().contains("len % n == 0"));
    });
}
