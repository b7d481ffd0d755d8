//! Compares a case on the library with the model.

use proptest::test_runner::TestCaseError;
use typed_nccl::{DType, Result};

use super::case::{Case, Log};
use super::device::Kind;
use super::elements::Value;
use super::play::play;
use super::watchdog;

/// Calls `$f::<T>($arg)` with the type that a data type names.
macro_rules! by_dtype {
    ($dtype:expr, $f:ident($arg:expr)) => {
        match $dtype {
            DType::I8 => $f::<i8>($arg),
            DType::U8 => $f::<u8>($arg),
            DType::I16 => $f::<i16>($arg),
            DType::U16 => $f::<u16>($arg),
            DType::I32 => $f::<i32>($arg),
            DType::U32 => $f::<u32>($arg),
            DType::I64 => $f::<i64>($arg),
            DType::U64 => $f::<u64>($arg),
            DType::F16 => $f::<half::f16>($arg),
            DType::F32 => $f::<f32>($arg),
            DType::F64 => $f::<f64>($arg),
            DType::Bf16 => $f::<half::bf16>($arg),
            DType::F8E4M3 => $f::<float8::F8E4M3>($arg),
            DType::F8E5M2 => $f::<float8::F8E5M2>($arg),
            other => unreachable!("{other} is no number"),
        }
    };
}

pub(crate) use by_dtype;

pub(crate) fn check(case: &Case) -> Result<(), TestCaseError> {
    by_dtype!(case.dtype, check_as(case))
}

fn check_as<T: Value>(case: &Case) -> Result<(), TestCaseError> {
    let found = found::<T>(case)?;
    for (rank, (found, needed)) in found.iter().zip(case.expected::<T>()).enumerate() {
        compare(found, &needed, case.picks_zeros())
            .map_err(|difference| TestCaseError::fail(format!("rank {rank}, {difference}")))?;
    }
    Ok(())
}

/// What each rank's program reads on the library.
pub(crate) fn found<T: Value>(case: &Case) -> Result<Vec<Log<T>>, TestCaseError> {
    watchdog::watch(|| Kind::spmd(case.ranks, |place| play::<T, _>(place, case)))
        .map_err(|error| TestCaseError::fail(error.to_string()))
}

fn compare<T: Value>(found: &Log<T>, needed: &Log<T>, any_zero: bool) -> Result<(), String> {
    if found.len() != needed.len() {
        return Err(format!("{} buffers instead of {}", found.len(), needed.len()));
    }
    for (look, (found, needed)) in found.iter().zip(needed).enumerate() {
        if found.len() != needed.len() {
            return Err(format!("look {look}: length {} not {}", found.len(), needed.len()));
        }
        let same = |(a, b): (&T, &T)| is_same(*a, *b, any_zero);
        if let Some(i) = found.iter().zip(needed).position(|pair| !same(pair)) {
            let (found, needed) = (found[i], needed[i]);
            return Err(format!(
                "look {look}, element {i}: {found:?} ({:#x}) instead of {needed:?} ({:#x})",
                found.bits(),
                needed.bits()
            ));
        }
    }
    Ok(())
}

fn is_same<T: Value>(a: T, b: T, any_zero: bool) -> bool {
    let (x, y) = (a.raise(), b.raise());
    let zeros = || a.to_f64() == 0.0 && b.to_f64() == 0.0;
    a.bits() == b.bits() || T::is_nan(x) && T::is_nan(y) || any_zero && zeros()
}
