//! Conversions between element types, in stream order.

use std::sync::Arc;

use super::Stream;
use super::copy::Both;
use crate::backend::{Backend, Copies, Span};
use crate::error::Site;
use crate::memory::{Allocation, Booking, Recorded};
use crate::{DType, Device, Numeric, RecordRead, Result, Writable, record};

impl<D: Device> Stream<D> {
    /// Converts the elements of `from` into those of `to`, of the same length, on this device and
    /// in stream order; the host does not wait. All pairs of numbers, on every
    /// device alike:
    ///
    /// | from | to | |
    /// |---|---|---|
    /// | integer | integer | the low bits, as Rust's `as` |
    /// | float | integer | towards zero, saturating; NaN becomes 0: as Rust's `as` |
    /// | any | float | nearest, ties to even; rounded once |
    /// | too large | `f16`, `bf16`, `f32` | infinity |
    /// | too large, infinity | `F8E4M3`, `F8E5M2` | the largest finite value, as their `from_f64` |
    ///
    /// NaN stays NaN between floats; its sign and payload may differ. Subnormal numbers are kept.
    /// From a type to itself it is a [`copy`](Self::copy).
    ///
    /// ```
    /// # use typed_nccl::{Host, Result};
    /// # fn main() -> Result<()> {
    /// let host = Host::local()?;
    /// let (stream, x) = (host.stream()?, host.from_slice(&[1.75_f32, -3.5, 1e9])?);
    /// let mut y = host.zeros::<i8>(3)?;
    /// stream.convert(&x, &mut y)?;
    /// assert_eq!(y.to_vec()?, [1, -3, 127]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// On a GPU each pair is a kernel of ours, loaded by its first conversion. CUDA may wait for
    /// the GPU's work while loading: if that work waits for this thread, convert once before.
    ///
    /// # Errors
    /// Lengths that differ, a view past its buffer, memory of another device; an error of CUDA's.
    #[track_caller]
    pub fn convert<'a, T, U, A, B>(&self, from: A, to: &mut B) -> Result<()>
    where
        T: Numeric,
        U: Numeric,
        A: RecordRead<'a, D, Elem = T>,
        B: Writable<D, Elem = U>,
    {
        let site = Site::caller();
        let (from, to) = self.converted::<T, U, B>(&from.recorded(), to, site)?;
        let uses = Both(&from.allocation().order, &to.allocation().order);
        let _booking = Booking::new(&self.core, uses)?;
        let _recorded = record::work(&self.core, "convert", site);
        // SAFETY: the lengths are equal, the offsets aligned for the types, and the uses are
        // ordered; the target is borrowed exclusively, so it does not overlap the source.
        unsafe {
            convert_on::<D::Backend>(
                self.core.raw(),
                (from.allocation(), from.offset(), T::DTYPE),
                (to.allocation(), to.offset(), U::DTYPE),
                from.len(),
                site,
            )
        }
    }

    /// The source and target of a conversion; the device is ready for it.
    pub(crate) fn converted<'a, 'b, T, U, B>(
        &self,
        from: &Recorded<'a, D::Backend>,
        to: &'b mut B,
        site: Site,
    ) -> Result<(Span<'a, D::Backend>, Span<'b, D::Backend>)>
    where
        T: Numeric,
        U: Numeric,
        B: Writable<D, Elem = U>,
    {
        let because = "the elements of what is converted";
        let (from, to) = self.both("convert", from, to, because, site)?;
        if T::DTYPE != U::DTYPE {
            <D::Backend as Copies>::can_convert(self.core.raw(), T::DTYPE, U::DTYPE)?;
        }
        Ok((from, to))
    }
}

/// Part of an allocation, from a byte offset on, as elements of a type.
type Typed<'a, B> = (&'a Arc<Allocation<B>>, usize, DType);

/// Enqueues a conversion, or a copy.
///
/// # Safety
/// As for [`Copies::convert`]; the types may be the same.
pub(crate) unsafe fn convert_on<B: Backend>(
    stream: &B::Stream,
    from: Typed<'_, B>,
    to: Typed<'_, B>,
    count: usize,
    site: Site,
) -> Result<()> {
    if from.2 == to.2 {
        let bytes = count * from.2.size();
        // SAFETY: the caller's promise is the same.
        return unsafe { B::copy(stream, (from.0, from.1), (to.0, to.1), bytes, site) };
    }
    // SAFETY: the caller's promise.
    unsafe { B::convert(stream, from, to, count, site) }
}
