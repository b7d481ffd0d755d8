//! Binds a plan, runs it, and compares what it leaves with plain Rust.

use std::env;

use typed_nccl::plan::{self, Plan, Values};
use typed_nccl::{Host, spmd};

/// The numbers of ranks.
pub(super) const RANKS: [usize; 7] = [1, 2, 3, 4, 7, 8, 16];
pub(super) const POWERS: [usize; 5] = [1, 2, 4, 8, 16];

/// A length that all of [`RANKS`] divide.
const FEW: usize = 1680;

/// `f32`s of 1 MiB.
const MIB: usize = 1 << 18;

/// Gives each number of ranks, with the elements that a rank has. `n` divides them, and 8 does.
pub(super) fn sizes(ranks: &[usize], mut run: impl FnMut(usize, usize)) {
    let full = env::var("PUBLISHED").is_ok_and(|value| value == "full");
    let most = ranks.iter().copied().filter(|&n| n <= 8).max().or_else(|| ranks.first().copied());
    for &n in ranks {
        run(n, FEW);
        if full || Some(n) == most {
            run(n, MIB / (8 * n) * 8 * n);
        }
    }
}

/// Each way to place `n` ranks on nodes.
pub(super) fn shapes(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..=n).filter(move |nodes| n.is_multiple_of(*nodes)).map(move |nodes| (nodes, n / nodes))
}

/// Likewise, with few elements; and with 1 MiB on two nodes of four.
pub(super) fn meshes(mut run: impl FnMut((usize, usize), usize)) {
    sizes(&RANKS, |n, len| {
        for shape in shapes(n).filter(|&shape| len == FEW || [(2, 4), (2, 8)].contains(&shape)) {
            run(shape, len);
        }
    });
}

pub(super) fn f32s() -> Values {
    Values::new().element::<f32>("T")
}

/// An element that a rank has in a run.
pub(super) fn own(rank: usize, run: usize, at: usize) -> f32 {
    (7 * rank + 5 * run + at % 61) as f32
}

/// What a rank has.
pub(super) fn owns(rank: usize, run: usize, len: usize) -> Vec<f32> {
    (0..len).map(|at| own(rank, run, at)).collect()
}

/// The sums over so many ranks from `first`.
pub(super) fn sums(first: usize, n: usize, run: usize, len: usize) -> Vec<f32> {
    let ranks = 7 * (first * n + n * (n - 1) / 2) + 5 * run * n;
    (0..len).map(|at| (ranks + n * (at % 61)) as f32).collect()
}

/// Compares without printing a million numbers.
pub(super) fn same(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(at) = differs {
        panic!("{what}, element {at}: {} instead of {}", found[at], expected[at]);
    }
}

/// Runs a plan of `x` twice, in place: `expected` says what a rank has in the end.
pub(super) fn in_place(
    plan: &'static Plan,
    (n, len): (usize, usize),
    values: &Values,
    expected: impl Fn(usize, usize) -> Option<Vec<f32>> + Sync,
) {
    spmd::<Host>(n, |place| {
        let mut comm = place.init()?;
        let rank = comm.rank().index();
        let mut bound = plan::bind(&mut comm, plan, values)?;
        for run in 0..2 {
            let mut x = comm.device().from_slice(&owns(rank, run, len))?;
            bound.on(&comm).write("x", &mut x).run(&mut ())?;
            if let Some(expected) = expected(rank, run) {
                let what = format!("{}, rank {rank} of {n}, run {run}", plan.name);
                same(&x.to_vec()?, &expected, &what);
            }
        }
        comm.finish()
    })
    .unwrap_or_else(|error| panic!("{} on {n} ranks: {error}", plan.name));
}

/// Runs a plan from `a` to `b` twice. Memory that it does not write stays -1.
pub(super) fn from_to(
    plan: &'static Plan,
    n: usize,
    (len, to): (usize, usize),
    values: &Values,
    expected: impl Fn(usize, usize) -> Vec<f32> + Sync,
) {
    spmd::<Host>(n, |place| {
        let mut comm = place.init()?;
        let rank = comm.rank().index();
        let mut bound = plan::bind(&mut comm, plan, values)?;
        for run in 0..2 {
            let a = comm.device().from_slice(&owns(rank, run, len))?;
            let mut b = comm.device().from_slice(&vec![-1.0; to])?;
            bound.on(&comm).read("a", &a).write("b", &mut b).run(&mut ())?;
            let what = format!("{}, rank {rank} of {n}, run {run}", plan.name);
            same(&b.to_vec()?, &expected(rank, run), &what);
        }
        comm.finish()
    })
    .unwrap_or_else(|error| panic!("{} on {n} ranks: {error}", plan.name));
}

/// Every rank gets the sums.
pub(super) fn reduces(plan: &'static Plan, size: (usize, usize), values: &Values) {
    let (n, len) = size;
    in_place(plan, size, values, |_, run| Some(sums(0, n, run, len)));
}

/// Every rank gets what all have, `len` elements in all.
pub(super) fn gathers(plan: &'static Plan, (n, len): (usize, usize), values: &Values) {
    let each = len / n;
    from_to(plan, n, (each, len), values, |_, run| {
        (0..n).flat_map(|rank| owns(rank, run, each)).collect()
    });
}

/// Every rank gets a part of each.
pub(super) fn transposes(plan: &'static Plan, (n, len): (usize, usize), values: &Values) {
    let part = len / n;
    from_to(plan, n, (len, len), values, |rank, run| {
        let from = |of| (0..part).map(move |at| own(of, run, rank * part + at));
        (0..n).flat_map(from).collect()
    });
}

/// Other numbers of ranks are refused, by name.
pub(super) fn refused(plan: &'static Plan, n: usize, values: &Values, because: &str) {
    spmd::<Host>(n, |place| {
        let mut comm = place.init()?;
        let found = plan::bind(&mut comm, plan, values).err().map(|error| error.to_string());
        let found = found.unwrap_or_default();
        assert!(found.contains(because), "{} on {n} ranks: {found}", plan.name);
        comm.finish()
    })
    .expect("the ranks are told, and end");
}
