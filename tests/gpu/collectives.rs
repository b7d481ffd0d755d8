//! The suite `tests/collectives` on GPUs: every collective against its model, from the same source.
//!
//! Integers and calls that only move data must match bit for bit; sums and products of floats as
//! closely as `elements.rs` requires of two backends.

#[path = "../collectives/bounds.rs"]
mod bounds;
#[path = "../collectives/call.rs"]
mod call;
#[path = "../collectives/case.rs"]
mod case;
#[path = "../collectives/check.rs"]
mod check;
#[path = "../collectives/elements.rs"]
mod elements;
#[path = "../collectives/every_form.rs"]
mod every_form;
#[path = "../collectives/issue.rs"]
mod issue;
#[path = "../collectives/model.rs"]
mod model;
#[path = "../collectives/play.rs"]
mod play;
#[path = "../collectives/reducing.rs"]
mod reducing;
#[path = "../collectives/small.rs"]
mod small;
#[path = "../collectives/strategies.rs"]
#[expect(dead_code, reason = "single calls are drawn for the host only")]
mod strategies;
#[path = "../collectives/watchdog.rs"]
mod watchdog;

mod device;
mod near;

use std::sync::Once;

use proptest::test_runner::{TestCaseError, TestCaseResult};
use typed_nccl::{DType, Result};

use call::{Call, Collective, Count, Op};
use case::{Case, Step};
use check::check;
use elements::Flavor;
use every_form::every_form;
use near::check_near;
use strategies::{Scope, program, random};

const INTEGERS: [DType; 6] = [DType::I8, DType::U8, DType::I32, DType::U32, DType::I64, DType::U64];

const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

const SMALL_FLOATS: [DType; 2] = [DType::F8E4M3, DType::F8E5M2];

pub(crate) fn every_form_of_integers() -> Result<()> {
    hold(&grid(&INTEGERS, Flavor::Bits, |_, _, _| true)?, check);
    Ok(())
}

pub(crate) fn every_form_of_floats() -> Result<()> {
    let mut dtypes = FLOATS.to_vec();
    match device::reduces_small_floats()? {
        true => dtypes.extend(SMALL_FLOATS),
        false => println!("SKIPPED 8-bit floats: they need NCCL 2.24.3 and compute capability 9.0"),
    }
    let rounds = |call: &Call| call.what.reduces() && !matches!(call.op, Op::Min | Op::Max);
    let exact = |_, _, call: &Call| !rounds(call);
    hold(&grid(&dtypes, Flavor::Close, exact)?, check);
    // NCCL's kernel for one rank, which scales, lacks 8-bit floats (up to 2.30 at least): refused.
    let scales = |call: &Call| call.op == Op::PreMulSum;
    let lacks =
        |dtype, ranks, call: &Call| ranks == 1 && SMALL_FLOATS.contains(&dtype) && scales(call);
    let inexact = |dtype, ranks, call: &Call| rounds(call) && !lacks(dtype, ranks, call);
    // The largest product is 2 to the power of 8, for 8 ranks: an 8-bit float can hold it.
    hold(&grid(&dtypes, Flavor::Positive, inexact)?, check_near);
    Ok(())
}

pub(crate) fn random_integer_programs() -> Result<()> {
    random(30, &program(integers()?), checked);
    Ok(())
}

pub(crate) fn large() -> Result<()> {
    for what in Collective::ALL {
        random(2, &strategies::large(integers()?, what), checked);
    }
    Ok(())
}

/// The most ranks possible. Cases describe eight at most.
fn most() -> Result<usize> {
    Ok(crate::common::most()?.min(Scope::ALL.ranks))
}

fn integers() -> Result<Scope> {
    Ok(Scope { dtypes: &INTEGERS, ranks: most()? })
}

/// The wanted calls of the grid, on whole buffers and on slices: on one GPU, two, and all.
fn grid(
    dtypes: &[DType],
    flavor: Flavor,
    wanted: impl Fn(DType, usize, &Call) -> bool,
) -> Result<Vec<Case>> {
    let all = [Count::Less(0), Count::Less(2)].map(every_form).concat();
    let case = |dtype, ranks| {
        let calls = all
            .iter()
            .filter(|step| matches!(step, Step::Call(call) if wanted(dtype, ranks, call)));
        let steps = calls.flat_map(|call| [*call, Step::Refill]).collect();
        Case { dtype, ranks, buffers: 3, block: 7, flavor, seed: ranks as u64, steps }
    };
    let most = most()?;
    let mut ranks = vec![1, most.min(2), most];
    ranks.dedup();
    let pairs = ranks.iter().flat_map(|&ranks| dtypes.iter().map(move |&dtype| (dtype, ranks)));
    Ok(pairs.map(|(dtype, ranks)| case(dtype, ranks)).collect())
}

/// Checks every case against the model, continuing after a failure.
fn hold(cases: &[Case], check: impl Fn(&Case) -> Result<(), TestCaseError>) {
    let fails = |case: &&Case| match check(case) {
        Ok(()) => false,
        Err(error) => {
            eprintln!("{} on {} ranks, {:?}: {error}", case.dtype, case.ranks, case.flavor);
            true
        }
    };
    let failed = cases.iter().filter(fails).count();
    assert!(failed == 0, "{failed} of {} cases fail", cases.len());
}

/// Checks a random case. The first failure is reported as drawn, as a case that hangs may leave no
/// time to shrink it.
fn checked(case: Case) -> TestCaseResult {
    static FIRST: Once = Once::new();
    check(&case).inspect_err(|error| FIRST.call_once(|| eprintln!("{error} in {case:?}")))
}
