//! Marks that know when they were reached.

use std::ops::Deref;
use std::time::Duration;

use super::{Mark, Stream};
use crate::backend::Timing;
use crate::derived::debug;
use crate::error::{OtherDevice, Site};
use crate::{Device, Result};

/// A [`Mark`] that knows when its stream reached it; [`since`](Self::since) gives the time between
/// two of them. It can be waited for like a mark.
///
/// ```
/// # use typed_nccl::{Host, TimedMark};
/// let stream = Host::local()?.stream()?;
/// let start: TimedMark<Host> = stream.timed_mark()?;
/// let end = stream.timed_mark()?;
/// stream.sync()?;
/// assert!(end.since(&start)?.is_some() && start.since(&end)?.is_some_and(|time| time.is_zero()));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct TimedMark<D: Device> {
    mark: Mark<D>,
    time: <D::Backend as Timing>::Time,
    ordinal: u32,
}

impl<D: Device> Stream<D> {
    /// The point after everything enqueued so far, with the device's time on reaching it. The host
    /// does not wait.
    ///
    /// ```
    /// # use typed_nccl::{Host, Result};
    /// # fn main() -> Result<()> {
    /// let host = Host::local()?;
    /// let stream = host.stream()?;
    /// let mut x = host.zeros::<f32>(1 << 20)?;
    /// let start = stream.timed_mark()?;
    /// stream.launch(&mut x, |x, _| x.fill(1.0))?;
    /// let end = stream.timed_mark()?;
    /// stream.sync()?;
    /// println!("{:?}", end.since(&start)?.expect("both were reached"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// On GPUs, the time between two marks is accurate to half a microsecond according to NVIDIA;
    /// on the host, to the precision of the system's clock.
    ///
    /// # Errors
    /// As [`mark`](Self::mark).
    #[track_caller]
    pub fn timed_mark(&self) -> Result<TimedMark<D>> {
        self.core.orders_others("timed_mark", Site::caller())?;
        self.core.number();
        let (point, time) = <D::Backend as Timing>::timed(self.core.raw())?;
        let mark = Mark::new(self.core.shared(), point, self.core.last_seq());
        Ok(TimedMark { mark, time, ordinal: self.core.ordinal() })
    }
}

impl<D: Device> TimedMark<D> {
    /// How long after `start` the device reached this mark: zero if it came here first, and `None`
    /// until it has reached both. The two may be on different streams of one device. Never blocks.
    ///
    /// # Errors
    /// [`Error::OtherDevice`](crate::Error::OtherDevice); an error of the device.
    #[track_caller]
    pub fn since(&self, start: &Self) -> Result<Option<Duration>> {
        let at = (start.ordinal, self.ordinal);
        OtherDevice::unless_same("since", "first mark", D::KIND, at, Site::caller())?;
        <D::Backend as Timing>::between(&start.time, &self.time)
    }
}

impl<D: Device> Deref for TimedMark<D> {
    type Target = Mark<D>;

    fn deref(&self) -> &Mark<D> {
        &self.mark
    }
}

impl<D: Device> Clone for TimedMark<D> {
    fn clone(&self) -> Self {
        Self { mark: self.mark.clone(), time: self.time.clone(), ordinal: self.ordinal }
    }
}

debug!([D: Device] TimedMark<D>, self => "Timed{:?}", self.mark);
