//! Marks: points in a stream's order.

use std::sync::Arc;

use super::core::{Awaited, StreamShared};
use crate::backend::Streams;
use crate::derived::debug;
use crate::{Device, Result};

/// The point after everything enqueued on a stream when the mark was made. `Send`, `Sync` and
/// `Clone`; another stream waits for it with `stream.wait_for(&mark)`, the host with
/// `comm.wait(&mark)`.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat};
/// # fn main() -> Result<()> {
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let stream = comm.device().stream()?;
/// let mut x = comm.device().zeros::<f32>(4)?;
/// stream.launch(&mut x, |x, _| x.fill(1.0))?;
/// let filled = comm.mark(&stream)?;
/// comm.stream().wait_for(&filled)?; // work there now begins later
/// comm.wait(&filled)?; // the host waits
/// # comm.finish()
/// # }
/// ```
pub struct Mark<D: Device> {
    stream: Arc<StreamShared<D::Backend>>,
    point: <D::Backend as Streams>::Point,
    /// The stream's number at that time.
    seq: u64,
}

impl<D: Device> Mark<D> {
    pub(super) fn new(
        stream: Arc<StreamShared<D::Backend>>,
        point: <D::Backend as Streams>::Point,
        seq: u64,
    ) -> Self {
        Self { stream, point, seq }
    }

    /// Whether everything before the mark is over. Never blocks.
    ///
    /// # Errors
    /// An error of the device.
    pub fn is_reached(&self) -> Result<bool> {
        <D::Backend as Streams>::reached(&self.point)
    }

    pub(crate) fn point(&self) -> &<D::Backend as Streams>::Point {
        &self.point
    }

    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    pub(crate) fn awaited(&self) -> Awaited<D::Backend> {
        Awaited::at(self.stream.clone(), self.point.clone(), self.seq)
    }

    pub(crate) fn stream(&self) -> &Arc<StreamShared<D::Backend>> {
        &self.stream
    }
}

impl<D: Device> Clone for Mark<D> {
    fn clone(&self) -> Self {
        Self { stream: self.stream.clone(), point: self.point.clone(), seq: self.seq }
    }
}

debug!([D: Device] Mark<D>, self => "Mark in stream #{}", self.stream.id());
