//! Collectives that reduce.
//!
//! Elements accumulate in rank order, starting at rank 0, in the accumulator of their type
//! ([`Arith::Acc`]), and are rounded once at the end. So every rank gets the same bits, on every
//! run.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::arith::{Arith, Bits};
use super::collective::{Collective, Flow};
use super::{Combine, Scale, exact, past};
use crate::element::{from_bytes, with_primitive};
use crate::{DType, ReductionName, element};

/// How many elements accumulate together, on the stack.
pub(super) const LANE: usize = 512;

impl Collective {
    /// Reduces elements `range` of a block into its targets.
    ///
    /// # Safety
    /// As [`Collective::run`].
    pub(super) unsafe fn reduce_block(&self, flow: &Flow, range: Range<usize>) {
        let run: unsafe fn(&Self, &Flow, Range<usize>) = with_primitive!(self.dtype, T => match self.is_exact() {
                true => Self::exact_as::<T>,
                false => Self::reduce_as::<T>,
            // Reductions of plain types were refused.
            }, _ => return);
        // SAFETY: the spans hold elements of `dtype`; the rest is the caller's promise.
        unsafe { run(self, flow, range) }
    }

    /// # Safety
    /// As [`Collective::reduce_block`], with `T` the element type.
    unsafe fn reduce_as<T: Arith>(&self, flow: &Flow, range: Range<usize>) {
        let size = size_of::<T>();
        let mut acc = [T::Acc::default(); LANE];
        for start in range.clone().step_by(LANE) {
            let len = LANE.min(range.end - start);
            let acc = &mut acc[..len];
            for (rank, part) in flow.from.clone().zip(&self.parts[flow.from.clone()]) {
                let Some(send) = &part.send else { continue };
                // SAFETY: what a rank sends has block `source`, as `Collective` documents.
                let from = unsafe { send.at((flow.source * self.count + start) * size) };
                // SAFETY: aligned and inside the span. Only this thread writes this chunk of any
                // send span, below, after the slice's last use.
                let from = unsafe { std::slice::from_raw_parts(from.cast::<T>(), len) };
                accumulate(acc, from, part.reduction.as_ref(), rank == 0);
            }
            if self.averages() {
                for a in &mut *acc {
                    *a = T::divide(*a, self.parts.len());
                }
            }
            let recvs = self.receivers(flow);
            let at = (flow.target * self.count + start) * size;
            if self.is_large {
                // SAFETY: what a rank receives has block `target`.
                let places = recvs.map(|recv| unsafe { recv.at(at) });
                // SAFETY: inside the spans; only this thread uses this chunk.
                unsafe { write_past::<T>(acc, places) };
                continue;
            }
            for recv in recvs {
                // SAFETY: what a rank receives has block `target`.
                let to = unsafe { recv.at(at) };
                // SAFETY: aligned and inside the span; only this thread uses this chunk, and no
                // other reference to it is live.
                let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<T>(), len) };
                for (to, a) in to.iter_mut().zip(&*acc) {
                    *to = T::lower(*a);
                }
            }
        }
    }
}

/// Exact sums.
impl Collective {
    fn built_in(&self) -> Option<ReductionName> {
        match self.parts[0].reduction {
            Some(Combine::BuiltIn(name)) => Some(name),
            _ => None,
        }
    }

    fn averages(&self) -> bool {
        self.built_in().is_some_and(ReductionName::averages)
    }

    fn is_exact(&self) -> bool {
        matches!(self.built_in(), Some(ReductionName::ExactAdd | ReductionName::ExactMean))
    }

    /// # Safety
    /// As [`Collective::reduce_block`], with `T` the element type.
    unsafe fn exact_as<T: Arith>(&self, flow: &Flow, range: Range<usize>) {
        let size = size_of::<T>();
        let sends = self.parts[flow.from.clone()].iter().filter_map(|part| part.send.as_ref());
        for start in range.clone().step_by(LANE) {
            let len = LANE.min(range.end - start);
            let mut results = [element::zero::<T>(); LANE];
            let results = &mut results[..len];
            let at = (flow.source * self.count + start) * size;
            // SAFETY: what a rank sends has block `source`, as `Collective` documents.
            let from = sends.clone().map(|send| unsafe { send.at(at) }.cast::<T>());
            // SAFETY: aligned and inside the span. Only this thread writes this chunk of any send
            // span, below, after the slices' last use.
            let from = from.map(|from| unsafe { std::slice::from_raw_parts(from, len) });
            exact::reduce(&from.collect::<Vec<_>>(), self.averages(), results);
            let at = (flow.target * self.count + start) * size;
            for recv in self.receivers(flow) {
                // SAFETY: what a rank receives has block `target`.
                let to = unsafe { recv.at(at) };
                let from = results.as_ptr().cast();
                match self.is_large {
                    // SAFETY: inside the span; only this thread uses this chunk.
                    true => unsafe { past::copy(from, to, size * len) },
                    // SAFETY: as above.
                    false => unsafe { to.copy_from_nonoverlapping(from, size * len) },
                }
            }
        }
    }
}

/// Writes results past the cache, to each of these places.
///
/// # Safety
/// Each place has room for this many elements, which nothing else uses.
#[inline(never)]
unsafe fn write_past<T: Arith>(results: &[T::Acc], places: impl Iterator<Item = *mut u8>) {
    let mut lowered = [MaybeUninit::<T>::uninit(); LANE];
    for (lowered, a) in lowered.iter_mut().zip(results) {
        lowered.write(T::lower(*a));
    }
    for to in places {
        // SAFETY: the caller's promise; as many elements were written above.
        unsafe { past::copy(lowered.as_ptr().cast(), to, size_of_val(&lowered[..results.len()])) };
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
        with_primitive!(dtype, T => combine_as::<T>, _ => return);
    // SAFETY: the caller's promise.
    unsafe { run(by, of, to, count) }
}

/// # Safety
/// As [`combine`], with `T` the element type.
unsafe fn combine_as<T: Arith>(by: ReductionName, of: &[*const u8], to: *mut u8, count: usize) {
    let mut acc = [T::Acc::default(); LANE];
    let how = Combine::BuiltIn(by);
    for start in (0..count).step_by(LANE) {
        let len = LANE.min(count - start);
        let acc = &mut acc[..len];
        for (nth, from) in of.iter().enumerate() {
            // SAFETY: inside the range that the caller promised.
            let from = unsafe { from.cast::<T>().add(start) };
            // SAFETY: as above; the slice ends before anything is written.
            let from = unsafe { std::slice::from_raw_parts(from, len) };
            accumulate(acc, from, Some(&how), nth == 0);
        }
        if by.averages() {
            for a in &mut *acc {
                *a = T::divide(*a, of.len());
            }
        }
        // SAFETY: inside the range that the caller promised.
        let to = unsafe { to.cast::<T>().add(start) };
        // SAFETY: as above; no other slice of it is alive.
        let to = unsafe { std::slice::from_raw_parts_mut(to, len) };
        for (to, a) in to.iter_mut().zip(&*acc) {
            *to = T::lower(*a);
        }
    }
}

/// The scalar of an operator on elements `T`; the types bind both to one element type.
fn scalar<T: Arith>(scale: &Scale) -> T {
    match scale {
        Scale::Host(bytes) => from_bytes(*bytes),
        Scale::Device(allocation) => {
            // SAFETY: the memory holds at least one element.
            let at = unsafe { allocation.block().at(0) };
            // SAFETY: aligned and initialised; stream order keeps writers before or after.
            unsafe { at.cast::<T>().read() }
        }
    }
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
            let scale = T::raise(scalar::<T>(scale));
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
