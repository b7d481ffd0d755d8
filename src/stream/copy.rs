//! Copies in stream order, from and to pinned memory.

use super::Stream;
use crate::backend::{Copies, Streams};
use crate::error::{BadLength, Error, Failed, OtherDevice, Site};
use crate::memory::{Booking, Copying, Pinned};
use crate::{Device, Element, Readable, Result, Writable};

type Point<D> = <<D as Device>::Backend as Streams>::Point;

impl<D: Device> Stream<D> {
    /// Copies `from` into `to`, of the same length, in stream order; the host does not wait. The
    /// pinned memory is gone until the copy is done.
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
    /// With the pinned memory: lengths that differ, a view past its buffer, memory of another device.
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
    pub fn download<T: Element, A: Readable<D, Elem = T>>(
        &self,
        from: &A,
        to: Pinned<T, D>,
    ) -> Result<Copying<T, D>, Failed<Pinned<T, D>>> {
        match self.start_download(from, &to, Site::caller()) {
            Ok(point) => Ok(Copying::new(to, &self.core, point)),
            Err(error) => Err(Failed { error, value: to }),
        }
    }

    fn start_upload<T: Element, B: Writable<D, Elem = T>>(
        &self,
        from: &Pinned<T, D>,
        to: &mut B,
        site: Site,
    ) -> Result<Point<D>> {
        let span = to.span().map_err(|bad| Error::BadRange(Box::new(bad)))?;
        self.fits::<T>("upload", span.len(), from.len(), span.allocation().ordinal(), site)?;
        let bytes = size_of_val(from.as_slice());
        let _booking = Booking::new(&self.core, (&span.allocation().order, true))?;
        // SAFETY: the lengths are equal; the use is ordered; `from` is in the `Copying` until the
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

    fn start_download<T: Element, A: Readable<D, Elem = T>>(
        &self,
        from: &A,
        to: &Pinned<T, D>,
        site: Site,
    ) -> Result<Point<D>> {
        let span = from.span().map_err(|bad| Error::BadRange(Box::new(bad)))?;
        self.fits::<T>("download", span.len(), to.len(), span.allocation().ordinal(), site)?;
        let bytes = size_of_val(to.as_slice());
        let _booking = Booking::new(&self.core, (&span.allocation().order, false))?;
        // SAFETY: the lengths are equal; the use is ordered; `to` is in the `Copying` until the copy
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

    fn fits<T: Element>(
        &self,
        operation: &'static str,
        found: usize,
        needed: usize,
        ordinal: u32,
        site: Site,
    ) -> Result<()> {
        if ordinal != self.core.ordinal() {
            let (what, found, needed) = ("buffer", ordinal, self.core.ordinal());
            let other = OtherDevice { operation, what, kind: D::KIND, found, needed, site };
            return Err(Error::OtherDevice(Box::new(other)));
        }
        if found == needed {
            return Ok(());
        }
        Err(Error::BadLength(Box::new(BadLength {
            operation,
            buffer: "device",
            dtype: T::DTYPE,
            found,
            needed,
            because: "the pinned memory's elements".to_owned(),
            site,
            collective: false,
        })))
    }
}
