//! Copies in stream order: from and to pinned memory, and within the device.

use super::Stream;
use crate::backend::{Copies, Span, Streams};
use crate::error::{BadLength, CaptureFault, Error, Failed, OtherDevice, Site};
use crate::memory::{Booking, Copying, Order, Pinned, Recorded, Uses};
use crate::{Device, Element, Primitive, RecordRead, Result, Writable, element, record};

/// The name of a pinned copy's length in errors.
const PINNED: &str = "the pinned memory's elements";

type Point<D> = <<D as Device>::Backend as Streams>::Point;

impl<D: Device> Stream<D> {
    /// Copies `from` into `to`, of the same length, in stream order; the host does not wait. The
    /// `Copying` holds the pinned memory until the copy is done.
    ///
    /// ```
    /// # use typed_nccl::{Host, Result};
    /// # fn main() -> Result<()> {
    /// let host = Host::local()?;
    /// let (stream, mut x) = (host.stream()?, host.zeros::<f32>(3)?);
    /// let mut pinned = host.pinned::<f32>(3)?;
    /// pinned.as_mut_slice().copy_from_slice(&[1.0, 2.0, 3.0]);
    /// let copying = stream.upload(pinned, &mut x)?;
    /// stream.launch(&mut x, |x, ()| x.reverse())?;
    /// let pinned = stream.download(&x, copying.wait()?)?.wait()?;
    /// assert_eq!(pinned.as_slice(), [3.0, 2.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// With the pinned memory: lengths that differ, a view past its buffer, memory of another
    /// device; [`Error::NotCapturable`] in a step of a captured plan, whose later runs would copy
    /// it again.
    #[track_caller]
    pub fn upload<T: Element, B: Writable<D, Elem = T>>(
        &self,
        from: Pinned<T, D>,
        to: &mut B,
    ) -> Result<Copying<T, D>, Failed<Pinned<T, D>>> {
        match self.start_upload(&from, to, Site::caller()) {
            Ok(point) => Ok(Copying::new(from, &self.core, point)),
            Err(error) => Err(Failed { error, value: from }),
        }
    }

    /// Copies `from` into `to`, of the same length, in stream order; the host does not wait.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    #[track_caller]
    pub fn download<'a, T: Element, A: RecordRead<'a, D, Elem = T>>(
        &self,
        from: A,
        to: Pinned<T, D>,
    ) -> Result<Copying<T, D>, Failed<Pinned<T, D>>> {
        match self.start_download::<T>(&from.recorded(), &to, Site::caller()) {
            Ok(point) => Ok(Copying::new(to, &self.core, point)),
            Err(error) => Err(Failed { error, value: to }),
        }
    }

    /// Copies `from` into `to`, of the same length and element type, on this device and in stream
    /// order; the host does not wait.
    ///
    /// ```
    /// # use typed_nccl::{Host, Result};
    /// # fn main() -> Result<()> {
    /// let host = Host::local()?;
    /// let (stream, x) = (host.stream()?, host.from_slice(&[1.0_f32, 2.0, 3.0])?);
    /// let mut y = host.zeros::<f32>(5)?;
    /// stream.fill(&mut y, 7.0)?;
    /// stream.copy(&x, &mut y.slice_mut(1..4))?;
    /// assert_eq!(y.to_vec()?, [7.0, 1.0, 2.0, 3.0, 7.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Lengths that differ, a view past its buffer, memory of another device.
    #[track_caller]
    pub fn copy<'a, T, A, B>(&self, from: A, to: &mut B) -> Result<()>
    where
        T: Element,
        A: RecordRead<'a, D, Elem = T>,
        B: Writable<D, Elem = T>,
    {
        let site = Site::caller();
        let (from, to) = self.copied(&from.recorded(), to, site)?;
        let uses = Both(&from.allocation().order, &to.allocation().order);
        let _booking = Booking::new(&self.core, uses)?;
        let _recorded = record::work(&self.core, "copy", site);
        // SAFETY: the lengths are equal, and the uses are ordered; the target is borrowed
        // exclusively, so it does not overlap the source.
        unsafe {
            <D::Backend as Copies>::copy(
                self.core.raw(),
                (from.allocation(), from.offset()),
                (to.allocation(), to.offset()),
                from.len() * size_of::<T>(),
                site,
            )
        }
    }

    /// Sets every element of `to` to `value`, in stream order; the host does not wait.
    ///
    /// # Errors
    /// A view past its buffer, memory of another device.
    #[track_caller]
    pub fn fill<T: Primitive, B: Writable<D, Elem = T>>(&self, to: &mut B, value: T) -> Result<()> {
        let site = Site::caller();
        let span = self.filled(to, site)?;
        let _booking = Booking::new(&self.core, (&span.allocation().order, true))?;
        let _recorded = record::work(&self.core, "fill", site);
        // SAFETY: the span is in bounds and aligned for its type, and the use is ordered.
        unsafe {
            <D::Backend as Copies>::fill(
                self.core.raw(),
                (span.allocation(), span.offset()),
                element::bytes(value),
                size_of::<T>(),
                span.len(),
                site,
            )
        }
    }

    /// The source and target of a copy.
    pub(crate) fn copied<'a, 'b, B: Writable<D, Elem: Element>>(
        &self,
        from: &Recorded<'a, D::Backend>,
        to: &'b mut B,
        site: Site,
    ) -> Result<(Span<'a, D::Backend>, Span<'b, D::Backend>)> {
        self.both("copy", from, to, "the elements of what is copied", site)
    }

    /// Source and target of equal length on this device.
    pub(super) fn both<'a, 'b, B: Writable<D, Elem: Element>>(
        &self,
        operation: &'static str,
        from: &Recorded<'a, D::Backend>,
        to: &'b mut B,
        because: &'static str,
        site: Site,
    ) -> Result<(Span<'a, D::Backend>, Span<'b, D::Backend>)> {
        let bad = |bad| Error::from(bad);
        let (from, to) = (from.span().map_err(bad)?, B::span(to).map_err(bad)?);
        let found = (to.len(), to.allocation().ordinal());
        self.fits::<B::Elem>(operation, found, from.len(), because, site)?;
        self.is_here(operation, from.allocation().ordinal(), site)?;
        Ok((from, to))
    }

    /// The target of a fill.
    pub(crate) fn filled<'a, T: Element, B: Writable<D, Elem = T>>(
        &self,
        to: &'a mut B,
        site: Site,
    ) -> Result<Span<'a, D::Backend>> {
        let span = B::span(to)?;
        self.is_here("fill", span.allocation().ordinal(), site)?;
        Ok(span)
    }

    fn start_upload<T: Element, B: Writable<D, Elem = T>>(
        &self,
        from: &Pinned<T, D>,
        to: &mut B,
        site: Site,
    ) -> Result<Point<D>> {
        self.core.may_capture("upload", CaptureFault::Pinned, site)?;
        let span = to.span()?;
        let found = (span.len(), span.allocation().ordinal());
        self.fits::<T>("upload", found, from.len(), PINNED, site)?;
        let bytes = size_of_val(from.as_slice());
        let _booking = Booking::new(&self.core, (&span.allocation().order, true))?;
        let _recorded = record::work(&self.core, "upload", site);
        // SAFETY: the lengths are equal; the use is ordered; the `Copying` owns `from` until the
        // copy is done.
        unsafe {
            <D::Backend as Copies>::upload(
                self.core.raw(),
                from.memory(),
                span.allocation(),
                span.offset(),
                bytes,
                site,
            )
        }
    }

    fn start_download<T: Element>(
        &self,
        from: &Recorded<'_, D::Backend>,
        to: &Pinned<T, D>,
        site: Site,
    ) -> Result<Point<D>> {
        self.core.may_capture("download", CaptureFault::Pinned, site)?;
        let span = from.span()?;
        let found = (span.len(), span.allocation().ordinal());
        self.fits::<T>("download", found, to.len(), PINNED, site)?;
        let bytes = size_of_val(to.as_slice());
        let _booking = Booking::new(&self.core, (&span.allocation().order, false))?;
        let _recorded = record::work(&self.core, "download", site);
        // SAFETY: the lengths are equal; the use is ordered; the `Copying` owns `to` until the copy
        // is done.
        unsafe {
            <D::Backend as Copies>::download(
                self.core.raw(),
                span.allocation(),
                span.offset(),
                to.memory(),
                bytes,
                site,
            )
        }
    }

    pub(super) fn fits<T: Element>(
        &self,
        operation: &'static str,
        (found, ordinal): (usize, u32),
        needed: usize,
        because: &'static str,
        site: Site,
    ) -> Result<()> {
        self.is_here(operation, ordinal, site)?;
        if found == needed {
            return Ok(());
        }
        let lengths = (found, needed);
        Err(BadLength::new(operation, "device", T::DTYPE, lengths, because, site).into())
    }

    pub(super) fn is_here(&self, operation: &'static str, ordinal: u32, site: Site) -> Result<()> {
        let at = (ordinal, self.core.ordinal());
        Ok(OtherDevice::unless_same(operation, "buffer", D::KIND, at, site)?)
    }
}

/// A source and a target.
pub(super) struct Both<'o, B: Streams>(pub(super) &'o Order<B>, pub(super) &'o Order<B>);

impl<B: Streams> Uses<B> for Both<'_, B> {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        each(self.0, false)?;
        each(self.1, true)
    }
}
