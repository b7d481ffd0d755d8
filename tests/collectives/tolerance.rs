//! How far results are from exact: checks the table in `elements.rs` against `f64`, and so for all
//! floats but `f64`.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use typed_nccl::{DType, Result};

use super::bounds;
use super::call::{Call, Collective, Count, Form, Op};
use super::case::{Case, Step};
use super::check::{by_dtype, found};
use super::elements::{Flavor, Value, mix};
use super::small;
use super::strategies::random;

const FLOATS: [DType; 5] = [DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2, DType::F32];

const OPS: [Op; 4] = [Op::Sum, Op::Prod, Op::PreMulSum, Op::Avg];

/// The possible error of the reference itself.
const SLACK: f64 = 1e-12;

#[test]
fn results_are_as_near_as_stated() {
    let setting = (select(&FLOATS[..]), select(&OPS[..]), 1_usize..=8, any::<u64>());
    random(150, &setting, |(dtype, op, ranks, seed)| {
        let call = Call {
            what: Collective::AllReduce,
            op,
            form: Form::InPlace,
            root: 0,
            count: Count::Less(0),
            send: 0,
            recv: 0,
            shift: 0,
            side: 0,
        };
        let steps = vec![Step::Call(call)];
        let case =
            Case { dtype, ranks, buffers: 2, block: 16, flavor: Flavor::Positive, seed, steps };
        by_dtype!(dtype, hold(&Setting { case, op }))
    });
}

struct Setting {
    case: Case,
    op: Op,
}

fn hold<T: Value>(setting: &Setting) -> Result<(), TestCaseError> {
    let Setting { case, op } = setting;
    let n = case.ranks;
    let host = &found::<T>(case)?[0][0];
    let fillings: Vec<Vec<Vec<T>>> = (0..n).map(|rank| case.filling(rank, 0)).collect();
    let scalars: Vec<T> = (0..n).map(|rank| case.scalar(0, rank)).collect();
    for (i, host) in host.iter().enumerate() {
        let values: Vec<T> = fillings.iter().map(|filling| filling[0][i]).collect();
        let exact = exact(*op, &values, &scalars);
        let error = |found: T| (found.to_f64() - exact).abs() / exact - SLACK;

        prop_assert!(error(*host) <= bounds::host::<T>(*op, n));

        let seed = mix(case.seed ^ i as u64);
        let direct = error(elsewhere(*op, &values, &scalars, seed, T::near));
        prop_assert!(direct <= bounds::elsewhere(*op, n, T::ROUNDOFF));
        prop_assert!(*op != Op::Sum || direct <= (n - 1) as f64 * T::ROUNDOFF);
        if size_of::<T>() == 1 {
            let by_f16 = |x: f64| T::near(small::F16.decode(small::F16.round(x as f32)).into());
            let error = error(elsewhere(*op, &values, &scalars, seed, by_f16));
            prop_assert!(error <= bounds::elsewhere(*op, n, bounds::detour::<T>()));
        }
    }
    Ok(())
}

fn exact<T: Value>(op: Op, values: &[T], scalars: &[T]) -> f64 {
    let values = values.iter().map(|x| x.to_f64());
    match op {
        Op::Prod => values.product(),
        Op::PreMulSum => values.zip(scalars).map(|(x, scalar)| x * scalar.to_f64()).sum(),
        Op::Avg => values.clone().sum::<f64>() / values.len() as f64,
        _ => values.sum(),
    }
}

/// The result of a backend that combines the values in any order and rounds each step.
fn elsewhere<T: Value>(
    op: Op,
    values: &[T],
    scalars: &[T],
    seed: u64,
    round: impl Fn(f64) -> T,
) -> T {
    let reciprocal = round(1.0 / values.len() as f64);
    let scale = |(x, scalar): (&T, &T)| match op {
        Op::PreMulSum => round(x.to_f64() * scalar.to_f64()),
        Op::Avg => round(x.to_f64() * reciprocal.to_f64()),
        _ => *x,
    };
    let mut left: Vec<T> = values.iter().zip(scalars).map(scale).collect();
    while left.len() > 1 {
        let mut take = |salt| {
            let hash = mix(seed ^ mix((left.len() << 1 | salt) as u64));
            left.swap_remove(hash as usize % left.len()).to_f64()
        };
        let (a, b) = (take(0), take(1));
        left.push(round(if op == Op::Prod { a * b } else { a + b }));
    }
    left[0]
}
