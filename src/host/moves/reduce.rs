//! Collectives that reduce.
//!
//! Elements accumulate in rank order, starting at rank 0, in the accumulator of their type
//! ([`Arith::Acc`]), and are rounded once at the end. So every rank gets the same bits, on every
//! run.

use std::ops::Range;
use std::slice;

use super::arith::{Arith, Bits, with_arith};
use super::collective::{Collective, Flow};
use super::{Combine, past};
use crate::{DType, ReductionName};

/// How many elements accumulate together, on the stack.
pub(super) const LANE: usize = 512;

impl Collective {
    /// Reduces elements `range` of a block into its targets.
    ///
    /// # Safety
    /// As [`Collective::run`].
    pub(super) unsafe fn reduce_block(&self, flow: &Flow, range: Range<usize>) {
        let run: unsafe fn(&Self, &Flow, Range<usize>) =
            // Reductions of plain types were refused.
            with_arith!(self.dtype, T => Self::reduce_as::<T>, _ => return);
        // SAFETY: the spans hold elements of `dtype`; the rest is the caller's promise.
        unsafe { run(self, flow, range) }
    }

    /// # Safety
    /// As [`Collective::reduce_block`], with `T` the element type.
    unsafe fn reduce_as<T: Arith>(&self, flow: &Flow, range: Range<usize>) {
        let place = |block: usize| (block * self.count + range.start) * size_of::<T>();
        let from = self.parts[flow.from.clone()].iter().filter_map(|part| {
            // SAFETY: what a rank sends has block `source`, as `Collective` documents.
            let from = unsafe { part.send.as_ref()?.at(place(flow.source)) };
            Some((from.cast_const().cast(), part.reduction.as_ref()))
        });
        let write = |start: usize, acc: &[T::Acc]| {
            let at = place(flow.target) + start * size_of::<T>();
            let recvs = self.receivers(flow);
            // SAFETY: what a rank receives has block `target`.
            let to = recvs.map(|recv| unsafe { recv.at(at) }.cast::<T>());
            match self.is_large {
                // SAFETY: inside the spans; only this thread uses this chunk.
                true => unsafe { lower_past(acc, to) },
                // SAFETY: as above, and aligned.
                false => to.for_each(|to| unsafe { lower(acc, to) }),
            }
        };
        // SAFETY: aligned and inside the spans, of which only this thread writes this chunk.
        unsafe { reduce::<T>(from, range.len(), write) };
    }
}

/// Reduces `count` elements at each of these addresses, and passes the results on piece by piece,
/// with the number of the first.
///
/// # Safety
/// This many elements lie there, aligned. Only `write` writes to them, and only to those that it is
/// given.
unsafe fn reduce<'c, T: Arith>(
    from: impl Iterator<Item = (*const T, Option<&'c Combine>)> + Clone,
    count: usize,
    write: impl Fn(usize, &[T::Acc]),
) {
    let Some((_, first)) = from.clone().next() else { return };
    let how = match first {
        Some(Combine::BuiltIn(name)) => *name,
        _ => ReductionName::Add,
    };
    let is_exact = matches!(how, ReductionName::ExactAdd | ReductionName::ExactMean);
    let ranks = from.clone().count();
    let mut acc = [T::Acc::default(); LANE];
    for start in (0..count).step_by(LANE) {
        let len = LANE.min(count - start);
        let acc = &mut acc[..len];
        let from = from.clone().map(|(from, how)| {
            // SAFETY: the caller's promise.
            let from = unsafe { from.add(start) };
            // SAFETY: as above; the slice ends before anything is written.
            (unsafe { slice::from_raw_parts(from, len) }, how)
        });
        if is_exact {
            let from: Vec<&[T]> = from.map(|(from, _)| from).collect();
            T::add_exactly(&from, how.averages(), acc);
        } else {
            for (nth, (from, how)) in from.enumerate() {
                accumulate(acc, from, how, nth == 0);
            }
            if how.averages() {
                acc.iter_mut().for_each(|a| *a = T::divide(*a, ranks));
            }
        }
        write(start, acc);
    }
}

/// Rounds results to the element type.
///
/// # Safety
/// There is room for as many elements, aligned, which nothing else uses.
unsafe fn lower<T: Arith>(acc: &[T::Acc], to: *mut T) {
    // SAFETY: the caller's promise; the elements are initialised.
    let to = unsafe { slice::from_raw_parts_mut(to, acc.len()) };
    for (to, a) in to.iter_mut().zip(acc) {
        *to = T::lower(*a);
    }
}

/// Rounds results to the element type, and writes them past the cache to each of these places.
///
/// # Safety
/// As for [`lower`].
#[inline(never)]
unsafe fn lower_past<T: Arith>(acc: &[T::Acc], places: impl Iterator<Item = *mut T>) {
    let mut lowered = [T::lower(T::Acc::default()); LANE];
    let lowered = &mut lowered[..acc.len()];
    // SAFETY: it has as many elements.
    unsafe { lower(acc, lowered.as_mut_ptr()) };
    for to in places {
        // SAFETY: the caller's promise.
        unsafe { past::copy(lowered.as_ptr().cast(), to.cast(), size_of_val(lowered)) };
    }
}

/// Reduces as many elements at each of these addresses into those at `to`, which may be one of
/// them.
///
/// # Safety
/// They are readable and `to` is writable for `count` elements of the type, aligned; `to` overlaps
/// none of them partly, and nothing else uses the elements.
pub(in crate::host) unsafe fn combine(
    by: ReductionName,
    dtype: DType,
    of: &[*const u8],
    to: *mut u8,
    count: usize,
) {
    let run: unsafe fn(ReductionName, &[*const u8], *mut u8, usize) =
        with_arith!(dtype, T => combine_as::<T>, _ => return);
    // SAFETY: the caller's promise.
    unsafe { run(by, of, to, count) }
}

/// # Safety
/// As [`combine`], with `T` the element type.
unsafe fn combine_as<T: Arith>(by: ReductionName, of: &[*const u8], to: *mut u8, count: usize) {
    let how = Combine::BuiltIn(by);
    let from = of.iter().map(|from| (from.cast::<T>(), Some(&how)));
    let write = |start: usize, acc: &[T::Acc]| {
        // SAFETY: inside the range that the caller promised.
        let to = unsafe { to.cast::<T>().add(start) };
        // SAFETY: as above.
        unsafe { lower(acc, to) };
    };
    // SAFETY: the caller's promise.
    unsafe { reduce::<T>(from, count, write) };
}

fn each<T: Arith>(acc: &mut [T::Acc], from: &[T], f: impl Fn(T::Acc, T::Acc) -> T::Acc) {
    for (a, x) in acc.iter_mut().zip(from) {
        *a = f(*a, T::raise(*x));
    }
}

/// Combines one rank's elements into the accumulator.
fn accumulate<T: Arith>(acc: &mut [T::Acc], from: &[T], how: Option<&Combine>, first: bool) {
    match how {
        Some(Combine::Made(scale)) => {
            let scale = T::raise(T::scalar(scale));
            if first {
                for (a, x) in acc.iter_mut().zip(from) {
                    *a = T::multiply(T::raise(*x), scale);
                }
            } else {
                for (a, x) in acc.iter_mut().zip(from) {
                    *a = T::add(*a, T::multiply(T::raise(*x), scale));
                }
            }
        }
        _ if first => {
            for (a, x) in acc.iter_mut().zip(from) {
                *a = T::raise(*x);
            }
        }
        Some(Combine::BuiltIn(ReductionName::Multiply)) => each(acc, from, T::multiply),
        Some(Combine::BuiltIn(ReductionName::Least)) => each(acc, from, T::smaller),
        Some(Combine::BuiltIn(ReductionName::Greatest)) => each(acc, from, T::larger),
        Some(Combine::BuiltIn(ReductionName::BitwiseAnd | ReductionName::LogicalAnd)) => {
            each(acc, from, |a, b| T::bits(a, b, Bits::And))
        }
        Some(Combine::BuiltIn(ReductionName::BitwiseOr | ReductionName::LogicalOr)) => {
            each(acc, from, |a, b| T::bits(a, b, Bits::Or));
        }
        Some(Combine::BuiltIn(ReductionName::BitwiseXor)) => {
            each(acc, from, |a, b| T::bits(a, b, Bits::Xor));
        }
        // The exact ones are summed elsewhere.
        Some(Combine::BuiltIn(
            ReductionName::Add
            | ReductionName::Mean
            | ReductionName::ScaledAdd
            | ReductionName::WideAdd
            | ReductionName::WideMean
            | ReductionName::ExactAdd
            | ReductionName::ExactMean,
        ))
        | None => each(acc, from, T::add),
    }
}
