//! How far from exact a reduction of floats may be, relatively: the table in `elements.rs`.

use super::call::Op;
use super::elements::Value;

/// On the host, on `n` ranks.
pub(crate) fn host<T: Value>(op: Op, n: usize) -> f64 {
    let h = 2_f64.powi(if size_of::<T>() == 8 { -53 } else { -24 });
    let steps = if matches!(op, Op::Sum | Op::Prod) { n - 1 } else { n };
    (T::ROUNDOFF.ln_1p() + steps as f64 * h.ln_1p()).exp_m1()
}

/// On a backend that rounds each step, with this unit roundoff.
pub(crate) fn elsewhere(op: Op, n: usize, roundoff: f64) -> f64 {
    let steps = match op {
        Op::Sum | Op::Prod => n - 1,
        Op::Avg => n + 1,
        _ => n,
    };
    (steps as f64 * roundoff.ln_1p()).exp_m1()
}

/// The unit roundoff of a backend that comes to 8-bit floats by way of `f16`.
pub(crate) fn detour<T: Value>() -> f64 {
    (1.0 + T::ROUNDOFF) * (1.0 + 2_f64.powi(-11)) - 1.0
}
