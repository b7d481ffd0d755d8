//! Events that a collective records at its launch.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// An event of the backend's.
pub(crate) trait RawEvent: Any + Send + Sync {
    fn ordinal(&self) -> u32;

    /// The handle for NCCL.
    fn handle(&self) -> *mut c_void;
}

/// An event of the program's, or of another library.
struct ForeignEvent {
    ordinal: u32,
    event: *mut c_void,
}

// SAFETY: CUDA's events may be used from any thread.
unsafe impl Send for ForeignEvent {}

// SAFETY: as for `Send`.
unsafe impl Sync for ForeignEvent {}

impl RawEvent for ForeignEvent {
    fn ordinal(&self) -> u32 {
        self.ordinal
    }

    fn handle(&self) -> *mut c_void {
        self.event
    }
}

/// An event that NCCL records once the kernel of a collective is launched. Its thread blocks occupy
/// the GPU by then, and a kernel that waits for the event cannot displace them.
/// [`Cuda::launch_event`](crate::Cuda::launch_event) makes one,
/// [`CallConfig::launched`](crate::CallConfig::launched) passes it to a collective, and
/// [`Stream::wait_launched`](crate::Stream::wait_launched) waits for the last call that it was
/// passed to.
///
/// ```no_run
/// # use typed_nccl::{Buffer, CallConfig, Communicator, Cuda, LaunchEvent, Result, Stream, Sum};
/// /// Compute on `side` begins once the kernel of the collective occupies its part of the GPU.
/// fn overlap(
///     comm: &Communicator<Cuda>,
///     x: &mut Buffer<f32, Cuda>,
///     side: &Stream<Cuda>,
/// ) -> Result<()> {
///     let event: LaunchEvent = comm.device().launch_event()?;
///     let config = CallConfig::builder().launched(&event).build();
///     comm.with(&config).all_reduce_in_place(x, Sum)?;
///     side.wait_launched(&event)
/// }
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone)]
pub struct LaunchEvent(Arc<dyn RawEvent>);

impl LaunchEvent {
    pub(crate) fn new(event: impl RawEvent) -> Self {
        Self(Arc::new(event))
    }

    /// An event that the program or another library made on this GPU.
    pub(crate) fn foreign(ordinal: u32, event: *mut c_void) -> Self {
        Self::new(ForeignEvent { ordinal, event })
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.0.ordinal()
    }

    pub(crate) fn handle(&self) -> *mut c_void {
        self.0.handle()
    }

    /// Whether both are the same event.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The backend's event, if it is of that type.
    pub(crate) fn raw<E: 'static>(&self) -> Option<&E> {
        let event: &dyn Any = &*self.0;
        event.downcast_ref()
    }
}

impl fmt::Debug for LaunchEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaunchEvent of cuda:{}", self.ordinal())
    }
}
