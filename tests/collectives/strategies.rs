//! Random cases.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use typed_nccl::DType;

use super::call::{Call, Collective, Count, Form, Op};
use super::case::{Case, Step};
use super::device::DTYPES;
use super::elements::Flavor;

/// The range that cases are drawn from.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) dtypes: &'static [DType],
    /// The most ranks.
    pub(crate) ranks: usize,
}

impl Scope {
    /// All data types, on as many ranks as the suite takes.
    pub(crate) const ALL: Self = Self { dtypes: DTYPES, ranks: 8 };
}

/// Runs `test` on `cases` random values, or in proportion to `PROPTEST_CASES`, for which 256 is the
/// default. (The macro `proptest!` would use the variable as an absolute number.) Nothing is
/// written to the tree.
pub(crate) fn random<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> TestCaseResult,
) {
    let default = Config { failure_persistence: None, ..Config::default() };
    let cases = u64::from(default.cases) * u64::from(cases) / 256;
    let cases = u32::try_from(cases).unwrap_or(u32::MAX).max(1);
    if let Err(error) = TestRunner::new(Config { cases, ..default }).run(strategy, test) {
        panic!("{error}");
    }
}

fn flavor() -> impl Strategy<Value = Flavor> {
    prop_oneof![
        1 => Just(Flavor::Tame),
        3 => Just(Flavor::Close),
        2 => Just(Flavor::Edges),
        2 => Just(Flavor::Bits),
    ]
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![
        1 => Just(Count::AtMost(0)),
        1 => Just(Count::AtMost(1)),
        4 => (2_usize..600).prop_map(Count::AtMost),
        2 => Just(Count::Less(0)),
        2 => (1_usize..9).prop_map(Count::Less),
    ]
}

/// All calls on one stream, or each rank on either.
fn side() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0_u8), any::<u8>()]
}

fn call_of(
    what: impl Strategy<Value = Collective>,
    form: impl Strategy<Value = Form>,
    count: impl Strategy<Value = Count>,
) -> impl Strategy<Value = Call> {
    let how = (what, select(&Op::ALL[..]), form, count);
    let place = (0_usize..8, 0_usize..3, 0_usize..2, 0_usize..64, side());
    (how, place).prop_map(|((what, op, form, count), (root, send, recv, shift, side))| Call {
        what,
        op,
        form,
        root,
        count,
        send,
        recv,
        shift,
        side,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => call_of(select(&Collective::ALL[..]), select(&Form::ALL[..]), count())
            .prop_map(Step::Call),
        1 => (0_usize..3, side(), any::<u8>())
            .prop_map(|(buffer, side, nap)| Step::Turn { buffer, side, nap }),
        1 => Just(Step::Refill),
    ]
}

/// Room for this many elements from each rank, around the sizes at which the code paths change.
fn block() -> impl Strategy<Value = usize> {
    prop_oneof![1 => 0_usize..3, 4 => 3_usize..40, 1 => 500_usize..530, 1 => 40_usize..1100]
}

fn case_of(scope: Scope, steps: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Case> {
    let Scope { dtypes, ranks } = scope;
    (select(dtypes), 1..=ranks, block(), flavor(), any::<u64>(), steps).prop_map(
        |(dtype, ranks, block, flavor, seed, steps)| Case {
            dtype,
            ranks,
            buffers: 3,
            block,
            flavor,
            seed,
            steps,
        },
    )
}

/// One call.
pub(crate) fn single(scope: Scope, what: Collective) -> impl Strategy<Value = Case> {
    let call = call_of(Just(what), select(&Form::ALL[..]), count());
    case_of(scope, call.prop_map(|call| vec![Step::Call(call)]))
}

/// Several calls, launches and host copies.
pub(crate) fn program(scope: Scope) -> impl Strategy<Value = Case> {
    case_of(scope, prop::collection::vec(step(), 2..9))
}

/// Bytes of a rank that the host moves in one chunk.
const CHUNK: usize = 64 * 1024;

/// Bytes that the host moves without its workers.
const SMALL: usize = 256 * 1024;

/// One to three calls of one collective that are cut into chunks, for the workers: more than
/// `CHUNK` from each rank and more than `SMALL` in all.
pub(crate) fn large(scope: Scope, what: Collective) -> impl Strategy<Value = Case> {
    let form = select(vec![Form::Apart, Form::InPlace]);
    let call = call_of(Just(what), form, (0_usize..9).prop_map(Count::Less));
    let steps = prop::collection::vec(call.prop_map(Step::Call), 1..4);
    let Scope { dtypes, ranks } = scope;
    let ranks = prop_oneof![7 => 1..=ranks.min(4), 1 => ranks.min(5)..=ranks];
    // A block that is one chunk and a bit, or more than two.
    let extra = prop_oneof![20_usize..2000, CHUNK..CHUNK + 2000];
    (select(dtypes), ranks, extra, flavor(), any::<u64>(), steps).prop_map(
        move |(dtype, ranks, extra, flavor, seed, steps)| {
            let bytes = CHUNK.max(SMALL / ranks) + extra * 8;
            let whole =
                matches!(what, Collective::AllReduce | Collective::Reduce | Collective::Broadcast);
            let block = bytes / dtype.size() / if whole { ranks } else { 1 } + 9;
            Case { dtype, ranks, buffers: 2, block, flavor, seed, steps }
        },
    )
}
