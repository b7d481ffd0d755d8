//! Passes a reduction chosen at run time to calls that take it at compile time.

use typed_nccl::{Max, Min, PreMulSum, Prod, ReduceOp, Result, Sum, World};

use super::call::Op;
use super::elements::Value;

/// A call without its reduction.
pub(crate) trait Reducing<T, W: World> {
    fn with(self, op: impl ReduceOp<T, W>) -> Result<()>;
}

/// Makes `call` with `op`; `scaled` is for `PreMulSum`.
pub(crate) fn reduce<T: Value, W: World>(
    op: Op,
    scaled: Option<&PreMulSum<T, W>>,
    call: impl Reducing<T, W>,
) -> Result<()> {
    match (op, scaled) {
        (Op::Prod, _) => call.with(Prod),
        (Op::Min, _) => call.with(Min),
        (Op::Max, _) => call.with(Max),
        (Op::Avg, _) => T::average(call),
        (Op::PreMulSum, Some(scaled)) => call.with(scaled),
        (Op::Sum | Op::PreMulSum, _) => call.with(Sum),
    }
}
