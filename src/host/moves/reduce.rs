//! Collectives that reduce.
//!
//! Elements accumulate in rank order, from rank 0 on, in the accumulator of their type
//! ([`Arith::Acc`]), and are rounded once at the end: every rank gets the same bits, on every run.

use std::ops::Range;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

use super::arith::Arith;
use super::collective::Collective;
use super::{Combine, Scale};
use crate::error::Operation;
use crate::{DType, ReductionName};

/// Elements that accumulate together, on the stack.
const LANE: usize = 512;

impl Collective {
    /// Reduces elements `range` of block `block`: of the whole for all_reduce and reduce, of what
    /// rank `block` gets for reduce_scatter.
    ///
    /// # Safety
    /// As [`Collective::run`].
    pub(super) unsafe fn reduce_block(&self, block: usize, range: Range<usize>) {
        let run: unsafe fn(&Self, usize, Range<usize>) = match self.dtype {
            DType::I8 => Self::reduce_as::<i8>,
            DType::U8 => Self::reduce_as::<u8>,
            DType::I32 => Self::reduce_as::<i32>,
            DType::U32 => Self::reduce_as::<u32>,
            DType::I64 => Self::reduce_as::<i64>,
            DType::U64 => Self::reduce_as::<u64>,
            DType::F16 => Self::reduce_as::<f16>,
            DType::F32 => Self::reduce_as::<f32>,
            DType::F64 => Self::reduce_as::<f64>,
            DType::Bf16 => Self::reduce_as::<bf16>,
            DType::F8E4M3 => Self::reduce_as::<F8E4M3>,
            DType::F8E5M2 => Self::reduce_as::<F8E5M2>,
        };
        // SAFETY: the spans hold elements of `dtype`; the rest is the caller's promise.
        unsafe { run(self, block, range) }
    }

    /// # Safety
    /// As [`Collective::reduce_block`], with `T` the element type.
    unsafe fn reduce_as<T: Arith>(&self, block: usize, range: Range<usize>) {
        let size = size_of::<T>();
        let mut acc = [T::Acc::default(); LANE];
        for start in range.clone().step_by(LANE) {
            let len = LANE.min(range.end - start);
            let acc = &mut acc[..len];
            for (rank, part) in self.parts.iter().enumerate() {
                let Some(send) = &part.send else { continue };
                // SAFETY: block `block` of the send span for reduce_scatter, block 0 otherwise,
                // both inside.
                let from = unsafe { send.at((block * self.count + start) * size) };
                // SAFETY: aligned and inside; nobody writes this chunk of any send span but this
                // thread, below, once the slice is gone.
                let from = unsafe { std::slice::from_raw_parts(from.cast::<T>(), len) };
                accumulate(acc, from, part.reduction.as_ref(), rank == 0);
            }
            if let Some(Combine::BuiltIn(ReductionName::Mean)) = self.parts[0].reduction {
                for a in &mut *acc {
                    *a = T::divide(*a, self.parts.len());
                }
            }
            for (rank, part) in self.parts.iter().enumerate() {
                let (true, Some(recv)) = (self.receives(rank, block), &part.recv) else {
                    continue;
                };
                // SAFETY: every receive span of these operations holds `count` elements.
                let to = unsafe { recv.at(start * size) };
                // SAFETY: aligned and inside; this chunk is this thread's, and no other reference
                // to it lives here.
                let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<T>(), len) };
                for (to, a) in to.iter_mut().zip(&*acc) {
                    *to = T::lower(*a);
                }
            }
        }
    }

    fn receives(&self, rank: usize, block: usize) -> bool {
        match self.operation {
            Operation::Reduce => rank == self.root,
            Operation::ReduceScatter => rank == block,
            _ => true,
        }
    }
}

/// The scalar of an operator for elements `T`: the types bind both to one element type.
fn scalar<T: Arith>(scale: &Scale) -> T {
    match scale {
        Scale::Host(bytes) => T::from_bytes(*bytes),
        Scale::Device(allocation) => {
            // SAFETY: the memory holds at least one element.
            let at = unsafe { allocation.block().at(0) };
            // SAFETY: aligned and initialised; the operator owns the memory, so nobody writes it.
            unsafe { at.cast::<T>().read() }
        }
    }
}

/// Combines one rank's elements into the accumulator.
fn accumulate<T: Arith>(acc: &mut [T::Acc], from: &[T], how: Option<&Combine>, first: bool) {
    let each = |acc: &mut [T::Acc], f: &dyn Fn(T::Acc, T::Acc) -> T::Acc| {
        for (a, x) in acc.iter_mut().zip(from) {
            *a = f(*a, T::raise(*x));
        }
    };
    match how {
        Some(Combine::Scaled(scale)) => {
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
        Some(Combine::BuiltIn(ReductionName::Multiply)) => each(acc, &T::multiply),
        Some(Combine::BuiltIn(ReductionName::Least)) => each(acc, &T::smaller),
        Some(Combine::BuiltIn(ReductionName::Greatest)) => each(acc, &T::larger),
        _ => each(acc, &T::add),
    }
}
