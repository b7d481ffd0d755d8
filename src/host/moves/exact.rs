//! Exact sums of floating-point elements, rounded once.
//!
//! Each element is summed in two `f64`, whose own error is exact (Knuth's two-sum). Where two do
//! not hold the sum, or it is not finite, the element is summed again in an integer that is as wide
//! as all of `f64` ([`Accumulator`]). So the result is that of the contributions as a set.

use super::arith::Arith;
use super::reduce::LANE;
use crate::element::{Convert, Wide};

/// Sums elements of several ranks, as many as there are results, and divides by their number if it
/// is a mean.
pub(super) fn reduce<T: Arith + Convert>(from: &[&[T]], mean: bool, results: &mut [T::Acc]) {
    let (mut sums, mut rests, mut lost) = ([0.0; LANE], [0.0; LANE], [0_u64; LANE]);
    if let Some(first) = from.first() {
        for (sum, x) in sums.iter_mut().zip(*first) {
            *sum = x.wide().float();
        }
    }
    for next in from.iter().skip(1) {
        let state = sums.iter_mut().zip(&mut rests).zip(&mut lost);
        for (((sum, rest), lost), x) in state.zip(*next) {
            let error;
            (*sum, error) = two_sum(*sum, x.wide().float());
            let more;
            (*rest, more) = two_sum(*rest, error);
            // Zero of either sign, unless something did not fit.
            *lost |= more.to_bits() << 1;
        }
    }
    let by = if mean { from.len() } else { 1 };
    for (at, result) in results.iter_mut().enumerate() {
        let is_exact = lost[at] == 0 && sums[at].is_finite();
        let quick = is_exact.then(|| round(sums[at], rests[at], by)).flatten();
        let exact: T = quick.unwrap_or_else(|| {
            let mut all = Accumulator::new();
            from.iter().for_each(|from| all.add(from[at].wide().float()));
            T::narrow(Wide::Float(all.round(by as u64, size_of::<T>() < 8)))
        });
        *result = T::raise(exact);
    }
}

/// The nearest number to a sum and the sum's exact error.
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// Rounds `(sum + rest) / by` to the element type; `None` where more digits decide.
#[inline]
fn round<T: Convert>(sum: f64, rest: f64, by: usize) -> Option<T> {
    // Adding +0 would lose the sign of -0.
    let (total, error) = if rest == 0.0 { (sum, 0.0) } else { two_sum(sum, rest) };
    let narrow = |value| T::narrow(Wide::Float(value));
    if size_of::<T>() == 8 {
        // Division by a power of two is exact, unless the quotient is subnormal.
        let is_exact = by.is_power_of_two()
            && total.is_finite()
            && (total == 0.0 || total.abs() >= by as f64 * f64::MIN_POSITIVE);
        return (by == 1 || is_exact).then(|| narrow(total / by as f64));
    }
    // With an odd last bit where it is inexact, it is on the right side of every tie.
    let odd = if error != 0.0 && total.to_bits() & 1 == 0 {
        let away = (error > 0.0) == (total > 0.0);
        f64::from_bits(if away { total.to_bits() + 1 } else { total.to_bits() - 1 })
    } else {
        total
    };
    if by == 1 || odd == 0.0 {
        return Some(narrow(odd));
    }
    // The quotient is wrong by three of its last places at most.
    let bits = (odd / by as f64).to_bits();
    let (low, high) = (narrow(f64::from_bits(bits - 4)), narrow(f64::from_bits(bits + 4)));
    (low == high).then_some(low)
}

/// The bits below the least that an `f64` has, for quotients.
const FRACTION: usize = 64;

/// A sum of as many `f64` as there are ranks, exactly: 2098 bits, those of the count, and of
/// quotients, in digits of 32 bits.
struct Accumulator {
    /// Signed, so that carries can wait. Each addition adds 32 bits at most.
    digits: [i64; 70],
    /// The sum of those that are not finite.
    special: f64,
    /// Whether all are -0.
    is_negative_zero: bool,
}

impl Accumulator {
    fn new() -> Self {
        Self { digits: [0; 70], special: 0.0, is_negative_zero: true }
    }

    fn add(&mut self, x: f64) {
        self.is_negative_zero &= x == 0.0 && x.is_sign_negative();
        if !x.is_finite() {
            self.special += x;
            return;
        }
        let (exponent, fraction) = (x.to_bits() >> 52 & 0x7ff, x.to_bits() & ((1 << 52) - 1));
        let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        let place = exponent.max(1) as usize - 1 + FRACTION;
        let mut bits = u128::from(mantissa) << (place % 32);
        for digit in &mut self.digits[place / 32..][..3] {
            let part = i64::from(bits as u32);
            *digit += if x.is_sign_negative() { -part } else { part };
            bits >>= 32;
        }
    }

    /// The sum divided by `by`, below 2^32, rounded to nearest with ties to even; or `odd`: with an
    /// odd last bit if it is inexact, to be rounded once more to a narrower type.
    fn round(&self, by: u64, odd: bool) -> f64 {
        if !self.special.is_finite() {
            return if self.special.is_nan() { f64::NAN } else { self.special };
        }
        let (mut digits, is_negative) = self.magnitude();
        let mut remainder = 0;
        for digit in digits.iter_mut().rev() {
            let all = remainder << 32 | u64::from(*digit);
            (*digit, remainder) = ((all / by) as u32, all % by);
        }
        let value = nearest(&digits, remainder != 0, odd);
        match is_negative || self.is_negative_zero {
            true => -value,
            false => value,
        }
    }

    /// The digits after all carries, and whether the sum is negative.
    fn magnitude(&self) -> ([u32; 70], bool) {
        let carried = |sign: i64| {
            let mut carry = 0_i64;
            let digits = self.digits.map(|digit| {
                let all = sign * digit + carry;
                carry = all >> 32;
                all as u32
            });
            (digits, carry < 0)
        };
        match carried(1) {
            (_, true) => (carried(-1).0, true),
            positive => positive,
        }
    }
}

/// The number nearest to digits that end [`FRACTION`] bits below the least `f64`; `more` says that
/// something follows them.
fn nearest(digits: &[u32; 70], more: bool, odd: bool) -> f64 {
    let Some(top) = digits.iter().rposition(|digit| *digit != 0) else { return 0.0 };
    let length = 32 * top + 32 - digits[top].leading_zeros() as usize;
    // The place of the last bit that is kept; there are bits below it.
    let last = length.saturating_sub(53).max(FRACTION);
    let digit = |at: usize| digits.get(at).copied().map_or(0, u128::from);
    // With the bit below, which decides unless it is a tie.
    let (at, shift) = ((last - 1) / 32, (last - 1) % 32);
    let bits = (digit(at) | digit(at + 1) << 32 | digit(at + 2) << 64) >> shift;
    let (kept, half) = ((bits >> 1) as u64 & ((1 << 53) - 1), bits & 1 == 1);
    let is_below = digits[at] & ((1 << shift) - 1) != 0 || digits[..at].iter().any(|it| *it != 0);
    let is_below = is_below || more;
    let kept = match odd {
        true => kept | u64::from(half || is_below),
        false => kept + u64::from(half && (is_below || kept & 1 == 1)),
    };
    // The leading bit, or the carry from rounding, adds one to the exponent.
    let bits = (((last - FRACTION) as u64) << 52) + kept;
    f64::from_bits(bits.min(f64::INFINITY.to_bits()))
}
