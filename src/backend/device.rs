//! Device communicators, through which kernels communicate.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Backend, WindowId, Windows};
use crate::device_comm::{Requirements, Shared};
use crate::error::{NcclVersion, Unsupported};
use crate::lock::Mutex;
use crate::{Properties, Result};

/// Device communicators.
///
/// # Safety
/// [`make`](Self::make) returns a device communicator of `comm` that lives until it is
/// [unmade](Self::unmake) or the communicator ends. Neither happens while a use of it is on a
/// stream.
pub unsafe trait DeviceComms: Windows {
    /// A closure's view of one.
    type DevComm<'v>;

    /// What stands for a device communicator where closures run on the host.
    type Mirror: std::fmt::Debug + Send + Sync + 'static;

    /// Every rank's part of a window, as a launch holds them.
    type Peers: Send + Sync + 'static;

    /// Every rank's part of a window, which has so many elements on each rank.
    ///
    /// # Errors
    /// The device communicator has ended, or does not have the window.
    fn peers(
        shared: &Shared<Self>,
        window: WindowId,
        lens: &dyn Fn(usize) -> usize,
        name: &'static str,
    ) -> Result<Self::Peers>
    where
        Self: Backend;

    /// Returns the view.
    fn view_of(shared: &Shared<Self>) -> Self::DevComm<'_>
    where
        Self: Backend;

    /// Checks that the backend supports the requirements, whatever the machine supports.
    ///
    /// # Errors
    /// It does not.
    fn has_for(comm: &Self::Comm, requirements: &Requirements) -> Result<()> {
        let _ = (comm, requirements);
        Ok(())
    }

    /// Creates device communicator `id`. Collective; the caller has compared the ranks'
    /// requirements, and checked them against what the communicator `has`.
    ///
    /// # Errors
    /// It cannot be created.
    fn make(
        comm: &Self::Comm,
        id: WindowId,
        requirements: &Requirements,
        has: &Properties,
    ) -> Result<DeviceBytes<Self::Mirror>> {
        let _ = (comm, id, requirements, has);
        Err(Unsupported::error(
            "a device communicator",
            "a backend that has them",
            "this one has none",
        ))
    }

    /// Records the uses of a device communicator with `shared` from now on.
    fn keep_device_comm(comm: &Self::Comm, shared: &Arc<Shared<Self>>)
    where
        Self: Backend,
    {
        let _ = (comm, shared);
    }

    /// Announces that this thread's next launch uses this device communicator.
    fn announce(bytes: &DeviceBytes<Self::Mirror>) {
        let _ = bytes;
    }

    /// Ends a device communicator that no rank uses any more.
    fn unmake(comm: &Self::Comm, id: WindowId) {
        let _ = (comm, id);
    }
}

/// A device communicator in the form that kernels take, and the resources created with it.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceBytes<M> {
    /// Its bytes, possibly padded.
    pub words: Box<[u64]>,
    /// The number of bytes.
    pub len: usize,
    /// The release that defines its layout; `None` on the host.
    pub layout: Option<NcclVersion>,
    /// The multicast mapping of the ranks that share memory.
    pub lsa_multimem: Option<NonNull<u8>>,
    /// The number of network contexts.
    pub gin_contexts: Option<u32>,
    /// What closures on the host use instead.
    pub mirror: Option<M>,
    /// Where NCCL placed each requirement that has a place, in their order.
    pub placed: Vec<Placed>,
    /// The communicator's windows, for kernels.
    pub windows: WindowHandles,
}

/// NCCL's handles of a communicator's current windows, for kernels on any thread.
#[derive(Clone, Debug, Default)]
pub struct WindowHandles(Arc<Mutex<HashMap<WindowId, u64>>>);

impl WindowHandles {
    /// A window's handle, while it is registered.
    pub fn get(&self, id: WindowId) -> Option<u64> {
        self.0.lock().get(&id).copied()
    }

    /// Records that a window was registered, or with `None` that it was deregistered.
    pub fn set(&self, id: WindowId, handle: Option<u64>) {
        let mut all = self.0.lock();
        match handle {
            Some(handle) => all.insert(id, handle),
            None => all.remove(&id),
        };
    }
}

impl<M> Default for DeviceBytes<M> {
    fn default() -> Self {
        Self {
            words: Box::default(),
            len: 0,
            layout: None,
            lsa_multimem: None,
            gin_contexts: None,
            mirror: None,
            placed: Vec::new(),
            windows: WindowHandles::default(),
        }
    }
}

// SAFETY: the pointers are device addresses, which the host does not dereference through this type.
// The other fields are `Send` and `Sync`.
unsafe impl<M: Send> Send for DeviceBytes<M> {}

// SAFETY: as for `Send`.
unsafe impl<M: Sync> Sync for DeviceBytes<M> {}

/// The place of a resource that a device communicator was created with.
#[derive(Clone, Copy, Debug)]
pub enum Placed {
    /// A multicast mapping, if there is one.
    Multimem(Option<NonNull<u8>>),
    /// A place in its memory, and the number of items there.
    Memory {
        /// The place.
        place: u32,
        /// The number of items.
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
