//! RMSNorm of rows, for backends without a kernel for it.

use std::slice;
use std::sync::Arc;

use super::engine::{ENGINE, StreamToken};
use super::moves::{Held, How, Local};
use super::{HostBackend, enqueue};
use crate::Result;
use crate::backend::{Allocation, Combined, Kernels, Rows};
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
        let bytes = count * dtype.size();
        let held = |&(memory, start): &(&Arc<Allocation<Self>>, usize)| {
            Held::new(memory.clone(), start, bytes)
        };
        let (read, written): (Vec<_>, _) = (of.iter().map(held).collect(), held(&(to, offset)));
        // SAFETY: the caller keeps the ranges inside, aligned, and apart or equal.
        let work = unsafe { Local::new(read, written, How::Combine(by, dtype)) };
        ENGINE.enqueue_local(stream, site, work);
        Ok(())
    }

    unsafe fn rms_norm(stream: &Arc<StreamToken>, all: Rows<'_, Self>) -> Result<()> {
        let Rows { rows: (rows, start), weight: (weight, offset), dtype, width, .. } = all;
        let Rows { count, epsilon, site, .. } = all;
        let read = [Held::new(weight.clone(), offset, width * dtype.size())];
        let written = Held::new(rows.clone(), start, count * dtype.size());
        enqueue(stream, site, read, written, move |[weight], rows| {
            with_primitive!(dtype, T => {
                let weight = (weight.start().cast_const(), width);
                // SAFETY: the caller keeps the ranges inside and aligned, and ordered uses away;
                // peers are kept away meanwhile.
                unsafe { norm_at::<T>((rows, count), weight, epsilon) };
            // `rms_norm` takes floats.
            }, _ => ());
        });
        Ok(())
    }
}
