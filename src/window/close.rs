//! Closing: collective, in one order on all ranks, when nothing uses the window any more.

use super::{Window, WindowKind};
use crate::backend::Windows;
use crate::communicator::{CanEnqueue, Live, State};
use crate::error::{Error, Failed, Site, WindowsDiffer};
use crate::{Buffer, Communicator, Device, Element, NcclMem, Result, World, wait};

impl<W: World, S: State> Communicator<W, S> {
    /// Deregisters a window and gives its memory back as a buffer. All ranks close the same windows
    /// in the same order; the host waits for this rank's work and for the others, so that no put is
    /// on its way. NCCL: `ncclCommWindowDeregister`, 2.27.
    ///
    /// # Errors
    /// A window of another communicator; ranks that close different windows; what went wrong in
    /// this rank's operations; a lost peer; a passed deadline.
    /// [`try_close`](Self::try_close) gives the window back.
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
        let site = Site::caller();
        match close(S::live_mut(&mut self.body), &window, site) {
            Ok(()) => Ok(window.into_buffer()),
            Err(error) => Err(Failed { error, value: window }),
        }
    }
}

fn close<W: World, T: Element, K: WindowKind>(
    live: &mut Live<W>,
    window: &Window<T, W, K>,
    site: Site,
) -> Result<()> {
    let core = &mut live.core;
    core.may_wait("close", site)?;
    let id = core.resources.window(&window.key)?.id;
    core.drained("close", site)?;
    let uses = window.allocation.order.points(true)?;
    wait::until(uses, Some(core.within()), "close", site)?;
    let control = core.control()?;
    let ticket = control.post("close", site, id.to_le_bytes().to_vec());
    let parts = core.collect(ticket, "close", site)?;
    if parts.iter().any(|part| part[..] != id.to_le_bytes()) {
        let name = |part: &std::sync::Arc<[u8]>| {
            let id = <[u8; 8]>::try_from(&part[..]).map(u64::from_le_bytes).unwrap_or_default();
            format!("closed window #{id}")
        };
        return Err(Error::WindowsDiffer(Box::new(WindowsDiffer {
            name: core.health.name(),
            parts: parts.iter().map(name).collect(),
            site,
        })));
    }
    let registered = core.resources.take_window(&window.key)?;
    <<W::Device as Device>::Backend as Windows>::unregister(
        core.comm()?,
        registered.id,
        registered.handle,
    );
    registered.allocation.order.set_in_window(false);
    Ok(())
}
