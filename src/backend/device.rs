//! Device communicators: what kernels communicate with.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Backend, WindowId, Windows};
use crate::device_api::{Requirements, Shared};
use crate::error::{Error, NcclVersion, Unsupported};
use crate::host::mirror::Mirror;
use crate::lock::Mutex;
use crate::{Properties, Result};

/// Device communicators.
///
/// # Safety
/// What [`make`](Self::make) gives is a device communicator of `comm`'s until it is
/// [unmade](Self::unmake) or the communicator ends. Neither happens while a use of it is on a stream.
pub unsafe trait DeviceComms: Windows {
    /// What a closure gets of one.
    type DevComm<'v>;

    /// The view.
    fn view_of(shared: &Shared<Self>) -> Self::DevComm<'_>
    where
        Self: Backend;

    /// Whether the backend has what is asked for, whatever the machine has.
    ///
    /// # Errors
    /// It has not.
    fn has_for(comm: &Self::Comm, requirements: &Requirements) -> Result<()> {
        let _ = (comm, requirements);
        Ok(())
    }

    /// Makes device communicator `id`. Collective; the caller has compared what the ranks ask for, and
    /// looked at what the communicator `has`.
    ///
    /// # Errors
    /// It cannot be made.
    fn make(
        comm: &Self::Comm,
        id: WindowId,
        requirements: &Requirements,
        has: &Properties,
    ) -> Result<DeviceBytes> {
        let _ = (comm, id, requirements, has);
        Err(Error::from(Unsupported {
            what: "a device communicator".to_owned(),
            needs: "a backend that has them".to_owned(),
            found: "this one has none".to_owned(),
        }))
    }

    /// The uses of a device communicator are booked with `shared` from here on.
    fn keep_device_comm(comm: &Self::Comm, shared: &Arc<Shared<Self>>)
    where
        Self: Backend,
    {
        let _ = (comm, shared);
    }

    /// The next launch of this thread is given this device communicator.
    fn announce(bytes: &DeviceBytes) {
        let _ = bytes;
    }

    /// The end of a device communicator: nothing uses it any more on any rank.
    fn unmake(comm: &Self::Comm, id: WindowId) {
        let _ = (comm, id);
    }
}

/// A device communicator, as kernels take it, and what was made for it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DeviceBytes {
    /// Its bytes, and perhaps more.
    pub words: Box<[u64]>,
    /// How many bytes.
    pub len: usize,
    /// The release whose layout it has; none on the host.
    pub layout: Option<NcclVersion>,
    /// The multicast mapping of the ranks that share memory.
    pub lsa_multimem: Option<NonNull<u8>>,
    /// How many contexts for the network there are.
    pub gin_contexts: Option<u32>,
    /// What closures of the host have instead.
    pub(crate) mirror: Option<Mirror>,
    /// What NCCL gave for each requirement that it gives something for, in their order.
    pub placed: Vec<Placed>,
    /// What kernels are given of the communicator's windows.
    pub windows: WindowHandles,
}

/// The library's handles of the windows that a communicator has now, for kernels of whatever thread.
#[derive(Clone, Debug, Default)]
pub struct WindowHandles(Arc<Mutex<HashMap<WindowId, u64>>>);

impl WindowHandles {
    /// A window's handle, while it is registered.
    pub fn get(&self, id: WindowId) -> Option<u64> {
        self.0.lock().get(&id).copied()
    }

    /// A window was registered, or is not any more.
    pub fn set(&self, id: WindowId, handle: Option<u64>) {
        let mut all = self.0.lock();
        match handle {
            Some(handle) => all.insert(id, handle),
            None => all.remove(&id),
        };
    }
}

// SAFETY: the address is of the device's: nobody reads from it here.
unsafe impl Send for DeviceBytes {}

// SAFETY: as for `Send`.
unsafe impl Sync for DeviceBytes {}

/// Where something is that a device communicator was made with.
#[derive(Clone, Copy, Debug)]
pub enum Placed {
    /// A multicast mapping, if there is one.
    Multimem(Option<NonNull<u8>>),
    /// A place in its memory, and how many of what is there.
    Memory {
        /// The place.
        place: u32,
        /// How many.
        count: u32,
    },
    /// The first signal and the first counter.
    Numbers {
        /// The signal.
        signal: u32,
        /// The counter.
        counter: u32,
    },
}
