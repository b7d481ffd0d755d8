//! User compute: closures that receive device addresses and the raw stream.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::declared;
use super::module::Handle;
use super::{Block, CudaBackend, CudaStream};
use crate::backend::{Launches, Seen};
use crate::compute::{Arguments, Grid, Kernel};
use crate::error::Site;
use crate::{Element, Result};

/// Device memory that a launched closure reads: an address for kernels, never for the host.
///
/// ```no_run
/// # use typed_nccl::{Buffer, Cuda, DeviceView, DeviceViewMut, RawStream, Result, Stream};
/// # use std::ffi::c_void;
/// # unsafe extern "C" fn scale(x: *const f32, y: *mut f32, n: usize, stream: *mut c_void) {}
/// /// `scale` is a function of CUDA's, linked into the program.
/// fn launch(
///     stream: &Stream<Cuda>,
///     x: &Buffer<f32, Cuda>,
///     y: &mut Buffer<f32, Cuda>,
/// ) -> Result<()> {
///     type Views<'v> = (DeviceView<'v, f32>, DeviceViewMut<'v, f32>);
///     stream.launch((x, y), |(x, mut y): Views<'_>, raw: RawStream<'_>| {
///         // SAFETY: it stays below both lengths, and enqueues on this stream alone.
///         unsafe { scale(x.as_ptr(), y.as_mut_ptr(), x.len().min(y.len()), raw.as_ptr()) }
///     })
/// }
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeviceView<'v, T> {
    start: *const T,
    len: usize,
    scope: PhantomData<&'v T>,
}

impl<T> DeviceView<'_, T> {
    /// The device address of the first element.
    pub fn as_ptr(&self) -> *const T {
        self.start
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Device memory that a launched closure writes: an address for kernels, never for the host.
///
/// See the example of [`DeviceView`].
#[derive(Debug)]
pub struct DeviceViewMut<'v, T> {
    start: *mut T,
    len: usize,
    scope: PhantomData<&'v mut T>,
}

impl<T> DeviceViewMut<'_, T> {
    /// The device address of the first element.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.start
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The stream that a launched closure enqueues on, for CUDA's own functions.
///
/// See the example of [`DeviceView`].
#[derive(Clone, Copy)]
pub struct RawStream<'r> {
    handle: *mut c_void,
    stream: &'r CudaStream,
}

impl RawStream<'_> {
    /// CUDA's handle (`CUstream`, `cudaStream_t`). The stream's device is current while the closure
    /// runs.
    pub fn as_ptr(&self) -> *mut c_void {
        self.handle
    }

    /// The stream for cudarc, whose launches are enqueued here. Pass addresses of memory as
    /// arguments (`let x = x.as_mut_ptr() as u64;`, `stream.launch_builder(&kernel).arg(&x)`).
    ///
    /// In a capture, launches are captured. [`Stream::adopt`](crate::Stream::adopt) refuses this
    /// stream then; memory that a graph uses has to be an operand of its closure.
    pub fn to_cudarc(&self) -> Arc<cudarc::driver::CudaStream> {
        self.stream.to_cudarc()
    }
}

impl fmt::Debug for RawStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawStream({:?})", self.handle)
    }
}

// SAFETY: the closure runs during the call: its work is enqueued after all earlier work on the
// stream and before all later work.
unsafe impl Launches for CudaBackend {
    type ViewOnceTheDeviceIsKnown<'v, T: Element> = DeviceView<'v, T>;
    type ViewMutOnceTheDeviceIsKnown<'v, T: Element> = DeviceViewMut<'v, T>;
    type Raw<'v> = RawStream<'v>;
    /// The device touches the memory, not the host, so there is nothing to guard.
    type Guard<'v> = ();

    fn guard(_: &[Seen<'_, Self>], _: Site) {}

    fn launch(
        stream: &Arc<CudaStream>,
        _: Site,
        work: impl for<'v> FnOnce(RawStream<'v>) + Send + 'static,
    ) -> Result<()> {
        stream.gpu().bind()?;
        work(RawStream { handle: stream.handle(), stream });
        Ok(())
    }

    type Loaded = Handle;

    fn load(stream: &Arc<CudaStream>, kernel: &'static Kernel, site: Site) -> Result<Handle> {
        declared::load(stream, kernel, site)
    }

    unsafe fn run(
        stream: &Arc<CudaStream>,
        site: Site,
        kernel: (&'static Kernel, Handle),
        grid: Grid,
        arguments: impl Arguments<Self>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { declared::run(stream, site, kernel, grid, &arguments) }
    }

    unsafe fn view<'v, T: Element>(block: &Block, offset: usize, len: usize) -> DeviceView<'v, T> {
        DeviceView { start: block.at(offset).cast_const().cast(), len, scope: PhantomData }
    }

    unsafe fn view_mut<'v, T: Element>(
        block: &Block,
        offset: usize,
        len: usize,
    ) -> DeviceViewMut<'v, T> {
        DeviceViewMut { start: block.at(offset).cast(), len, scope: PhantomData }
    }
}
