//! Pinned memory: host memory that a device copies from and to by itself.

use std::marker::PhantomData;
use std::slice;
use std::sync::Arc;

use crate::backend::{Copies, Streams};
use crate::derived::debug;
use crate::error::{Failed, Overflow, Site, reported};
use crate::stream::{Awaited, StreamCore};
use crate::{Device, Element, Result, wait};

/// `len` elements of page-locked host memory for copies in stream order
/// ([`Stream::upload`](crate::Stream::upload), [`Stream::download`](crate::Stream::download)). A
/// copy takes it by value and gives it back when it is done: a borrow could end, by `mem::forget`,
/// while the device still copies.
///
/// ```
/// # use typed_nccl::{Copying, Host, Pinned};
/// let (host, stream) = (Host::local()?, Host::local()?.stream()?);
/// let mut staging: Pinned<f32, Host> = host.pinned(2)?;
/// staging.as_mut_slice().copy_from_slice(&[1.0, 2.0]);
/// let mut x = host.zeros(2)?;
/// let copying: Copying<f32, Host> = stream.upload(staging, &mut x)?;
/// let staging = copying.wait()?; // for the next copy
/// assert_eq!((staging.as_slice(), x.to_vec()?), ([1.0, 2.0].as_slice(), vec![1.0, 2.0]));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct Pinned<T, D: Device> {
    memory: Arc<<D::Backend as Copies>::Pinned>,
    len: usize,
    types: PhantomData<fn() -> (T, D)>,
}

impl<T: Element, D: Device> Pinned<T, D> {
    #[track_caller]
    pub(crate) fn alloc(device: &D, len: usize) -> Result<Self> {
        let bytes = Overflow::unless_fits("pinned", len, T::DTYPE, Site::caller())?;
        let memory = Arc::new(<D::Backend as Copies>::pin(device.ordinal(), bytes)?);
        Ok(Self { memory, len, types: PhantomData })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        let start = <D::Backend as Copies>::pinned_address(&self.memory);
        // SAFETY: `len` elements, aligned and initialised. A copy in flight owns this value (in a
        // `Copying`), so nothing writes them while they can be seen.
        unsafe { slice::from_raw_parts(start.cast(), self.len) }
    }

    /// The elements, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let start = <D::Backend as Copies>::pinned_address(&self.memory);
        // SAFETY: as in `as_slice`; finished copies no longer touch it.
        unsafe { slice::from_raw_parts_mut(start.cast(), self.len) }
    }

    pub(crate) fn memory(&self) -> &Arc<<D::Backend as Copies>::Pinned> {
        &self.memory
    }
}

debug!([T: Element, D: Device] Pinned<T, D>, self => "Pinned of {} {}", self.len, T::DTYPE);

/// A copy in stream order that is under way, with its pinned memory.
///
/// See the example of [`Pinned`].
#[must_use = "`wait()` gives the pinned memory back"]
pub struct Copying<T, D: Device> {
    pinned: Pinned<T, D>,
    awaited: Awaited<D::Backend>,
    /// Whether it was reported that the data never came.
    is_told: bool,
}

impl<T: Element, D: Device> Copying<T, D> {
    pub(crate) fn new(
        pinned: Pinned<T, D>,
        stream: &StreamCore<D::Backend>,
        point: <D::Backend as Streams>::Point,
    ) -> Self {
        let awaited = Awaited::at(stream.shared(), point, stream.last_seq());
        Self { pinned, awaited, is_told: false }
    }

    /// Whether it is done. Never blocks.
    ///
    /// # Errors
    /// An error of the device.
    pub fn is_done(&self) -> Result<bool> {
        <D::Backend as Streams>::reached(&self.awaited.point)
    }

    /// Waits on the host until it is done, and gives the pinned memory back.
    ///
    /// # Errors
    /// With this value, to wait again: what went wrong on the stream, once; a passed deadline; an
    /// abort.
    #[track_caller]
    pub fn wait(mut self) -> Result<Pinned<T, D>, Failed<Self>> {
        let site: Site = Site::caller();
        let over = wait::until(slice::from_ref(&self.awaited), None, "wait", site);
        let over = over.and_then(|()| match self.awaited.undone() {
            Some(error) if !std::mem::replace(&mut self.is_told, true) => Err(reported(error)),
            _ => Ok(()),
        });
        match over {
            Ok(()) => Ok(self.pinned),
            Err(error) => Err(Failed { error, value: self }),
        }
    }
}

debug!(
    [T: Element, D: Device] Copying<T, D>,
    self => "Copying of {} {}", self.pinned.len, T::DTYPE
);
