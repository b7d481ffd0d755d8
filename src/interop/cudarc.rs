//! cudarc's memory and streams.
//!
//! cudarc orders the uses of a slice by the slice's stream and, once a context has a second stream,
//! by two events that each use waits for and records. We do both: a slice's stream waits for
//! cudarc's uses, our first use waits for that stream, and that stream waits for our uses of a lent
//! slice.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{
    self as theirs, CudaSlice, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, sys,
};

#[cfg(any(feature = "torch", feature = "cupy"))]
use crate::backend::Keeps;
use crate::cuda::{CudaStream, Gpu};
use crate::error::{AdoptFault, NotAdoptable, OtherDevice, Site};
use crate::memory::{Ending, ForeignSpan, Lent, LentAs};
use crate::{Cuda, Device, Element, ForeignMemory, Lend, Mark, Result, Slice, SliceMut, Stream};

/// `CU_STREAM_PER_THREAD`
const PER_THREAD: usize = 2;

/// A context's number of its device.
fn number(context: &theirs::CudaContext) -> u32 {
    u32::try_from(context.ordinal()).unwrap_or(u32::MAX)
}

/// Checks that this context's objects can be used with our streams.
fn check<Tag>(
    device: &Cuda<Tag>,
    context: &theirs::CudaContext,
    operation: &'static str,
    site: Site,
) -> Result<&'static Gpu> {
    let at = (number(context), device.ordinal());
    OtherDevice::unless_same(operation, "stream", Cuda::<Tag>::KIND, at, site)?;
    let gpu = Gpu::open(device.ordinal())?;
    if context.cu_ctx() != gpu.context().cu_ctx() {
        return Err(NotAdoptable::new(operation, AdoptFault::OtherContext, site).into());
    }
    Ok(gpu)
}

/// Our handle of a slice's stream. For CUDA's per-thread stream, its ordering is done now.
fn of_slice<Tag>(
    device: &Cuda<Tag>,
    stream: &Arc<theirs::CudaStream>,
    operation: &'static str,
    site: Site,
) -> Result<Stream<Cuda<Tag>>> {
    let gpu = check(device, stream.context(), operation, site)?;
    let handle = stream.cu_stream().cast();
    // SAFETY: the context was compared, and the stream is kept.
    let raw = unsafe { CudaStream::adopt(gpu, handle, Some(stream.clone())) };
    Stream::adopted(device, raw, operation, site)
}

/// The GPU of a stream that is given by CUDA's handle.
fn of_handle<Tag>(
    device: &Cuda<Tag>,
    handle: *mut c_void,
    operation: &'static str,
    site: Site,
) -> Result<&'static Gpu> {
    if handle.addr() == PER_THREAD {
        return Err(NotAdoptable::new(operation, AdoptFault::PerThreadStream, site).into());
    }
    Gpu::open(device.ordinal())
}

impl<Tag> Stream<Cuda<Tag>> {
    /// Wraps a stream that cudarc made, including the legacy default stream
    /// (`context.default_stream()`). Work enqueued here is on that stream, in one order with
    /// cudarc's, and the stream stays until nothing of ours needs it. Local.
    ///
    /// # Errors
    /// [`Error::OtherDevice`](crate::Error::OtherDevice);
    /// [`Error::NotAdoptable`](crate::Error::NotAdoptable): a non-primary context, CUDA's
    /// per-thread default stream, or a stream that captures a graph, such as that of a closure in a
    /// capture. Work enqueued on it would be in the graph, which keeps and orders only what it was
    /// recorded with.
    #[track_caller]
    pub fn adopt(device: &Cuda<Tag>, theirs: Arc<theirs::CudaStream>) -> Result<Self> {
        let (operation, site) = ("Stream::adopt", Site::caller());
        if theirs.cu_stream().addr() == PER_THREAD {
            let fault = AdoptFault::PerThreadStream;
            return Err(NotAdoptable::new(operation, fault, site).into());
        }
        of_slice(device, &theirs, operation, site)
    }

    /// Wraps a stream by CUDA's handle (`CUstream`, `cudaStream_t`), as [`adopt`](Self::adopt).
    /// Null is the legacy default stream.
    ///
    /// # Errors
    /// [`Error::NotAdoptable`](crate::Error::NotAdoptable) for CUDA's per-thread default stream,
    /// and for a stream that captures a graph.
    ///
    /// # Safety
    /// It is a stream of the primary context of `device`, and stays until the process ends: memory
    /// and communicators that were used on it are waited for by it, also after they were dropped.
    /// A stream that ends earlier is taken with its owner, by [`adopt`](Self::adopt).
    #[track_caller]
    pub unsafe fn from_raw(device: &Cuda<Tag>, handle: *mut c_void) -> Result<Self> {
        let (operation, site) = ("Stream::from_raw", Site::caller());
        let gpu = of_handle(device, handle, operation, site)?;
        // SAFETY: the caller's promise.
        let raw = unsafe { CudaStream::adopt(gpu, handle, None) };
        Self::adopted(device, raw, operation, site)
    }

    /// The current stream of a library, kept alive by `keeps`.
    ///
    /// # Safety
    /// It is a stream of the primary context of `device`, and lives at least as long as `keeps`.
    #[cfg(any(feature = "torch", feature = "cupy"))]
    #[track_caller]
    pub(super) unsafe fn current(device: &Cuda<Tag>, handle: usize, keeps: Keeps) -> Result<Self> {
        let handle = std::ptr::with_exposed_provenance_mut(handle);
        let (operation, site) = ("current_stream", Site::caller());
        let gpu = of_handle(device, handle, operation, site)?;
        // SAFETY: the caller's promise.
        let raw = unsafe { CudaStream::keep(gpu, handle, keeps) };
        Self::adopted(device, raw, operation, site)
    }

    /// Orders later work here after all present work on `theirs`. The host does not wait. Also
    /// works with CUDA's per-thread default stream, on the thread whose stream is meant.
    ///
    /// # Errors
    /// [`Error::OtherDevice`](crate::Error::OtherDevice),
    /// [`Error::NotAdoptable`](crate::Error::NotAdoptable);
    /// [`Error::NotCapturable`](crate::Error::NotCapturable) in a step of a captured plan; an error
    /// that CUDA reports.
    #[track_caller]
    pub fn after(&self, theirs: &theirs::CudaStream) -> Result<()> {
        self.beside(theirs, "Stream::after", Site::caller())?;
        self.core.raw().after(theirs.cu_stream())?;
        self.core.number();
        Ok(())
    }

    /// Orders later work on `theirs` after all present work here. The host does not wait.
    ///
    /// # Errors
    /// As [`after`](Self::after).
    #[track_caller]
    pub fn before(&self, theirs: &theirs::CudaStream) -> Result<()> {
        self.beside(theirs, "Stream::before", Site::caller())?;
        self.core.raw().before(theirs.cu_stream())
    }

    /// Refuses an order between streams of different devices, or if either is being captured.
    fn beside(
        &self,
        theirs: &theirs::CudaStream,
        operation: &'static str,
        site: Site,
    ) -> Result<()> {
        self.core.orders_others(operation, site)?;
        let gpu = check(self.device(), theirs.context(), operation, site)?;
        match gpu.is_captured(theirs.cu_stream())? {
            true => Err(NotAdoptable::new(operation, AdoptFault::Captures, site).into()),
            false => Ok(()),
        }
    }
}

fn pointer<T>(address: sys::CUdeviceptr) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

// SAFETY: a slice owns its elements, on its context's device, and frees them when it is dropped.
// Its stream waits, in `start`, for the events of cudarc's uses; uses without events were on that
// stream, or ordered by a program that promised cudarc so. Making an uninitialised slice takes
// `unsafe`.
unsafe impl<T: Element, Tag> ForeignMemory<Cuda<Tag>> for CudaSlice<T> {
    type Elem = T;

    fn start(&mut self) -> *mut T {
        let stream = self.stream().clone();
        let (address, _recorded) = self.device_ptr_mut(&stream);
        pointer(address)
    }

    fn elements(&self) -> usize {
        self.len()
    }

    fn ordinal(&self, _: &Cuda<Tag>) -> u32 {
        number(self.context())
    }

    fn ready(&mut self, device: &Cuda<Tag>) -> Result<Option<Mark<Cuda<Tag>>>> {
        let stream = of_slice(device, self.stream(), "adopt", Site::caller())?;
        stream.mark().map(Some)
    }
}

/// Borrowed memory of cudarc's, and its stream.
#[doc(hidden)]
pub struct Borrowed<Tag, M> {
    stream: Stream<Cuda<Tag>>,
    theirs: Arc<theirs::CudaStream>,
    memory: M,
    /// Makes the stream wait for cudarc's uses of the memory, and records a use there.
    touch: fn(&mut M, &theirs::CudaStream) -> sys::CUdeviceptr,
}

impl<Tag, M> Ending<Cuda<Tag>> for Borrowed<Tag, M> {
    fn stream(&self) -> Option<&Stream<Cuda<Tag>>> {
        Some(&self.stream)
    }

    fn ended(&mut self) {
        // That stream waits for our uses: the use recorded now is the last of them.
        (self.touch)(&mut self.memory, &self.theirs);
    }
}

/// # Safety
/// The memory is borrowed for longer than the loan.
unsafe fn lent<T: Element, Tag, M>(
    device: &Cuda<Tag>,
    mut memory: M,
    (len, theirs): (usize, Arc<theirs::CudaStream>),
    touch: fn(&mut M, &theirs::CudaStream) -> sys::CUdeviceptr,
    site: Site,
) -> Result<Lent<Cuda<Tag>, Borrowed<Tag, M>>> {
    let stream = of_slice(device, &theirs, "lend", site)?;
    let start = pointer::<T>(touch(&mut memory, &theirs));
    let place = ForeignSpan::of(start, len, device.ordinal(), Some(stream.mark()?));
    let ending = Borrowed { stream, theirs, memory, touch };
    // SAFETY: the caller's promise; cudarc's uses before the loan precede the mark, and later ones,
    // including its free, are on the stream that waits, or wait for the event there.
    unsafe { Lent::new(device, place, ending, site) }
}

macro_rules! of_cudarc {
    ($($memory:ty: $view:ident $slice:ident, $touch:expr;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<'a, T: Element, D: Device> LentAs<D> for $memory {
            type View<'v> = $view<'v, T, D>;
        }

        #[diagnostic::do_not_recommend]
        impl<'a, T: Element, Tag> Lend<Cuda<Tag>> for $memory {
            type Loan = Lent<Cuda<Tag>, Borrowed<Tag, Self>>;

            unsafe fn lend(self, device: &Cuda<Tag>, site: Site) -> Result<Self::Loan> {
                let of = (self.len(), self.stream().clone());
                // SAFETY: the caller's promise.
                unsafe { lent::<T, Tag, Self>(device, self, of, $touch, site) }
            }

            fn view(loan: &Self::Loan) -> <Self as LentAs<Cuda<Tag>>>::View<'_> {
                loan.$slice()
            }
        }
    )+ };
}

of_cudarc! {
    &'a CudaSlice<T>: Slice slice, |it, stream| it.device_ptr(stream).0;
    CudaView<'a, T>: Slice slice, |it, stream| it.device_ptr(stream).0;
    &'a mut CudaSlice<T>: SliceMut slice_mut, |it, stream| it.device_ptr_mut(stream).0;
    CudaViewMut<'a, T>: SliceMut slice_mut, |it, stream| it.device_ptr_mut(stream).0;
}
