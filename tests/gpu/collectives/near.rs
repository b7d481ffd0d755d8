//! Floats that NCCL combines in its own order: as close to the model as both are to the exact
//! result.
//!
//! For cases that refill their buffers after each call, so that nothing is rounded twice. Elements
//! that no call wrote must match bit for bit.

use std::ops::Range;

use proptest::test_runner::TestCaseError;
use typed_nccl::DType;

use super::bounds;
use super::call::{Call, Layout};
use super::case::{Case, Log, Step};
use super::check::{by_dtype, found};
use super::elements::Value;

pub(super) fn check_near(case: &Case) -> Result<(), TestCaseError> {
    by_dtype!(case.dtype, check_as(case))
}

fn check_as<T: Value>(case: &Case) -> Result<(), TestCaseError> {
    let found = found::<T>(case)?;
    for (rank, (found, needed)) in found.iter().zip(case.expected::<T>()).enumerate() {
        compare(found, &needed, &rounded::<T>(case, rank))
            .map_err(|difference| TestCaseError::fail(format!("rank {rank}, {difference}")))?;
    }
    Ok(())
}

/// The part of a read that a call wrote.
struct Rounded {
    call: Call,
    range: Range<usize>,
    /// The allowed difference between model and NCCL, relative to the model.
    bound: f64,
}

impl Rounded {
    fn new<T: Value>(case: &Case, call: Call, range: Range<usize>) -> Self {
        let (op, n) = (case.op::<T>(&call), case.ranks);
        let roundoff = if size_of::<T>() == 1 { bounds::detour::<T>() } else { T::ROUNDOFF };
        let (model, nccl) = (bounds::host::<T>(op, n), bounds::elsewhere(op, n, roundoff));
        // The bounds are relative to the exact value, which is unknown.
        Self { call, range, bound: (model + nccl) / (1.0 - model) * (1.0 + 1e-9) }
    }

    fn allows<T: Value>(&self, i: usize, found: T, needed: T) -> bool {
        let difference = (found.to_f64() - needed.to_f64()).abs();
        // False for NaN.
        self.range.contains(&i) && difference <= self.bound * needed.to_f64()
    }
}

/// By read: what the preceding call wrote, if it wrote there.
fn rounded<T: Value>(case: &Case, rank: usize) -> Vec<Option<Rounded>> {
    let (mut looks, mut given) = (Vec::new(), Vec::new());
    let mut last: Option<(Call, Layout)> = None;
    // The program reads once more at its end.
    for step in case.steps.iter().chain([&Step::Refill]) {
        match step {
            Step::Call(call) => {
                assert!(last.is_none(), "two calls without a look between them");
                let layout = call.layout(case, rank);
                if layout.given {
                    // A reduction returns as many elements as a rank sends.
                    let len = layout.send.as_ref().map_or(0, |send| send.range.len());
                    given.push(Some(Rounded::new::<T>(case, *call, 0..len)));
                }
                last = Some((*call, layout));
            }
            Step::Refill => {
                let last = last.take();
                looks.extend((0..case.buffers).map(|buffer| {
                    let (call, layout) = last.as_ref()?;
                    let region = layout.recv.as_ref().filter(|recv| recv.buffer == buffer)?;
                    Some(Rounded::new::<T>(case, *call, region.range.clone()))
                }));
            }
            Step::Turn { .. } => panic!("not in a grid"),
        }
    }
    looks.extend(given);
    looks
}

fn compare<T: Value>(
    found: &Log<T>,
    needed: &Log<T>,
    rounded: &[Option<Rounded>],
) -> Result<(), String> {
    if (found.len(), rounded.len()) != (needed.len(), needed.len()) {
        return Err(format!("{} buffers instead of {}", found.len(), needed.len()));
    }
    for (look, ((found, needed), rounded)) in found.iter().zip(needed).zip(rounded).enumerate() {
        if found.len() != needed.len() {
            return Err(format!("look {look}: length {} not {}", found.len(), needed.len()));
        }
        for (i, (&found, &needed)) in found.iter().zip(needed).enumerate() {
            let is_near = rounded.as_ref().is_some_and(|r| r.allows(i, found, needed));
            if !is_near && found.bits() != needed.bits() {
                let why = match rounded {
                    Some(Rounded { call, range, bound }) => {
                        format!("{range:?} may differ by {bound:e} after {call:?}")
                    }
                    None => "nothing was written here".to_owned(),
                };
                return Err(format!(
                    "look {look}, element {i}: {found:?} instead of {needed:?}; {why}"
                ));
            }
        }
    }
    Ok(())
}
