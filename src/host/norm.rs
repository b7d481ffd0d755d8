//! RMSNorm of rows, for backends without a kernel for it.

use std::slice;
use std::sync::Arc;

use super::HostBackend;
use super::engine::{ENGINE, StreamToken};
use super::moves::combine;
use crate::Result;
use crate::backend::{Allocation, Combined, Kernels, Launches, Rows, Seen};
use crate::element::{Convert, Wide, with_primitive};

/// Norms rows of `weight`'s length.
fn norm<T: Convert>(rows: &mut [T], weight: &[T], epsilon: f32) {
    let wide = |x: &T| x.wide().float();
    for row in rows.chunks_exact_mut(weight.len()) {
        let squares: f64 = row.iter().map(|x| wide(x) * wide(x)).sum();
        let root = (squares / weight.len() as f64 + f64::from(epsilon)).sqrt();
        for (x, weight) in row.iter_mut().zip(weight) {
            *x = T::narrow(Wide::Float(wide(x) / root * wide(weight)));
        }
    }
}

/// Norms the rows at these addresses.
///
/// # Safety
/// This many elements lie there; nothing else accesses the rows, and nothing writes the weight.
unsafe fn norm_at<T: Convert>(
    (rows, count): (*mut u8, usize),
    (weight, width): (*const u8, usize),
    epsilon: f32,
) {
    // SAFETY: the caller's promise.
    let rows = unsafe { slice::from_raw_parts_mut(rows.cast::<T>(), count) };
    // SAFETY: as above.
    let weight = unsafe { slice::from_raw_parts(weight.cast::<T>(), width) };
    norm(rows, weight, epsilon);
}

// SAFETY: it has no kernels; rows are normed and regions combined in their stream's order.
unsafe impl Kernels for HostBackend {
    unsafe fn combine(stream: &Arc<StreamToken>, combined: Combined<'_, Self>) -> Result<()> {
        let Combined { by, dtype, of, to: (to, offset), count, site } = combined;
        let of: Vec<_> = of.iter().map(|&(from, start)| (from.clone(), start)).collect();
        let (to, bytes) = (to.clone(), count * dtype.size());
        let work = move || {
            let target = Seen { block: to.block(), offset, bytes, write: true };
            // A source that is the target is covered by the target's guard.
            let is_other = |one: &&(Arc<Allocation<Self>>, usize)| {
                !Arc::ptr_eq(&one.0, &to) || one.1 != offset
            };
            let sources = of.iter().filter(is_other).map(|(from, offset)| {
                let block = from.block();
                Seen { block, offset: *offset, bytes, write: false }
            });
            let seen: Vec<_> = sources.chain([target]).collect();
            let _guard = Self::guard(&seen, site);
            // SAFETY: the caller keeps the ranges inside.
            let at = |(from, start): &(Arc<Allocation<Self>>, usize)| unsafe {
                from.block().at(*start).cast_const()
            };
            let sources: Vec<_> = of.iter().map(at).collect();
            // SAFETY: as above.
            let target = unsafe { to.block().at(offset) };
            // SAFETY: the caller keeps the ranges inside, aligned, apart or equal, and ordered uses
            // away; the guard keeps peers away.
            unsafe { combine(by, dtype, &sources, target, count) };
        };
        ENGINE.enqueue_launch(stream, site, Box::new(work));
        Ok(())
    }

    unsafe fn rms_norm(stream: &Arc<StreamToken>, all: Rows<'_, Self>) -> Result<()> {
        let Rows { rows: (rows, start), weight: (weight, offset), dtype, width, .. } = all;
        let Rows { count, epsilon, site, .. } = all;
        let (rows, weight) = (rows.clone(), weight.clone());
        let work = move || {
            let (rows, weight) = (rows.block(), weight.block());
            let (written, read) = (count * dtype.size(), width * dtype.size());
            let written = Seen { block: rows, offset: start, bytes: written, write: true };
            let read = Seen { block: weight, offset, bytes: read, write: false };
            let _guard = Self::guard(&[read, written], site);
            // SAFETY: the caller keeps the range inside.
            let rows = (unsafe { rows.at(start) }, count);
            // SAFETY: as above.
            let weight = (unsafe { weight.at(offset) }.cast_const(), width);
            with_primitive!(dtype, T => {
                // SAFETY: as above, aligned and ordered uses away; the guard keeps peers away.
                unsafe { norm_at::<T>(rows, weight, epsilon) };
            // `rms_norm` takes floats.
            }, _ => ());
        };
        ENGINE.enqueue_launch(stream, site, Box::new(work));
        Ok(())
    }
}
