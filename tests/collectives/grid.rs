//! Every collective in every form with every reduction, for every data type and 1 to 8 ranks.

use proptest::test_runner::TestCaseError;
use typed_nccl::DType;

use crate::call::{Call, Collective, Count, Form, Op};
use crate::case::{Case, Step};
use crate::check::check;
use crate::elements::Flavor;

/// All calls, each on buffers that are filled anew.
fn steps(count: Count) -> Vec<Step> {
    let mut steps = Vec::new();
    for what in Collective::ALL {
        for form in Form::ALL {
            for op in Op::ALL {
                let number = steps.len();
                let call = Call {
                    what,
                    op,
                    form,
                    root: number,
                    count,
                    send: number % 3,
                    recv: number % 2,
                    shift: number % 5,
                    side: (number % 7) as u8,
                };
                if call.form() == form && (what.reduces() || op == Op::Sum) {
                    steps.extend([Step::Call(call), Step::Refill]);
                }
            }
        }
    }
    steps
}

fn all(flavor: Flavor, count: Count) -> Result<(), TestCaseError> {
    let steps = steps(count);
    for dtype in DType::ALL {
        for ranks in 1..=8 {
            let seed = ranks as u64;
            let case =
                Case { dtype, ranks, buffers: 3, block: 7, flavor, seed, steps: steps.clone() };
            check(&case).map_err(|error| {
                TestCaseError::fail(format!("{dtype} on {ranks} ranks: {error}"))
            })?;
        }
    }
    Ok(())
}

#[test]
fn everything_on_whole_buffers() -> Result<(), TestCaseError> {
    all(Flavor::Close, Count::Less(0))
}

#[test]
fn everything_on_slices() -> Result<(), TestCaseError> {
    all(Flavor::Edges, Count::Less(2))
}
