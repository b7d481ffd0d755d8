//! Every collective in every form with every reduction, for every data type and 1 to 8 ranks.

use proptest::test_runner::TestCaseError;

use super::call::Count;
use super::case::Case;
use super::check::check;
use super::device::DTYPES;
use super::elements::Flavor;
use super::every_form::every_form;

fn all(flavor: Flavor, count: Count) -> Result<(), TestCaseError> {
    let steps = every_form(count);
    for &dtype in DTYPES {
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
