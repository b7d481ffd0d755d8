//! Closing: collective, in the same order on all ranks, once nothing uses the window any more.

use super::{Window, WindowKind};
use crate::backend::Windows;
use crate::communicator::{CanEnqueue, Live, State};
use crate::error::{Error, Failed, Site, WindowsDiffer};
use crate::{Buffer, Communicator, Device, Element, NcclMem, Result, World, wait};

/// ## The end of a window
impl<W: World, S: State> Communicator<W, S> {
    /// Deregisters a window and returns its memory as a buffer. All ranks close the same windows in
    /// the same order; the host waits for this rank's work and for the others, so that no put is
    /// under way. NCCL: `ncclCommWindowDeregister`, 2.27.
    ///
    /// Closing a stale window, one that the communicator went on without, is local: its memory
    /// comes back unchanged, and the others need not call.
    ///
    /// # Errors
    /// A window of another communicator; ranks that close different windows; a failure of this
    /// rank's operations; a lost peer; a passed deadline. [`try_close`](Self::try_close) gives the
    /// window back.
    #[track_caller]
    pub fn close<T: Element, K: WindowKind>(
        &mut self,
        window: Window<T, W, K>,
    ) -> Result<Buffer<T, W::Device, NcclMem>>
    where
        S: CanEnqueue,
    {
        Ok(self.try_close(window)?)
    }

    /// [`close`](Self::close) that gives the window back when it fails.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn try_close<T: Element, K: WindowKind>(
        &mut self,
        window: Window<T, W, K>,
    ) -> Result<Buffer<T, W::Device, NcclMem>, Failed<Window<T, W, K>>>
    where
        S: CanEnqueue,
    {
        match self.close_at(&window, Site::caller()) {
            Ok(()) => Ok(window.into_buffer()),
            Err(error) => Err(Failed { error, value: window }),
        }
    }

    /// Deregisters a window.
    pub(crate) fn close_at<T: Element, K: WindowKind>(
        &mut self,
        window: &Window<T, W, K>,
        site: Site,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        close(S::live_mut(&mut self.body), window, site)
    }
}

pub(super) fn close<W: World, T: Element, K: WindowKind>(
    live: &mut Live<W>,
    window: &Window<T, W, K>,
    site: Site,
) -> Result<()> {
    let core = &mut live.core;
    if core.resources.is_lost(&window.named.key) {
        // It is not registered any more, and newcomers never had it.
        wait::allowed("close", site)?;
        let points = window.allocation.order.points(true)?;
        return wait::until(&points, Some(core.within()), "close", site);
    }
    core.may_wait("close", site)?;
    // Report an earlier failure first: the others hear of it too, and no rank's window is closed.
    let ready = core.resources.window(&window.named.key).map(|window| window.id).and_then(|id| {
        core.drained("close", site)?;
        wait::until(&window.allocation.order.points(true)?, Some(core.within()), "close", site)?;
        Ok(id)
    });
    let words = match &ready {
        Ok(id) => format!("window #{id}"),
        Err(refused) => format!("none ({refused})"),
    };
    core.agree(ready, (words, ()), ("close", site), |parts| {
        let (name, closing) = (core.health.name(), true);
        Error::from(WindowsDiffer { name, closing, parts, site })
    })?;
    // Nothing fails once it is taken out.
    core.comm()?;
    let registered = core.resources.take_window(&window.named.key)?;
    let id = registered.id;
    core.graphs.lose_naming("window", id, site);
    <<W::Device as Device>::Backend as Windows>::unregister(
        core.comm()?,
        registered.id,
        registered.handle,
    );
    registered.allocation.order.leave_window();
    Ok(())
}
