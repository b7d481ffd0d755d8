//! From a validated launch into the backend.

use std::sync::Arc;

use crate::Result;
use crate::backend::{Backend, KernelWork, Piece, Refusal, Span};
use crate::communicator::Core;
use crate::error::{Call, Error, OtherDevice};
use crate::memory::{Allocation, Booking, Order, Uses};
use crate::stream::StreamCore;

/// A launch that has passed validation.
pub(crate) struct Launch<'a, B: Backend> {
    pub(crate) call: Call,
    pub(crate) work: KernelWork,
    pub(crate) pieces: &'a [Piece],
    /// The memory, and whether the kernel writes it.
    pub(crate) uses: &'a [(&'a Arc<Allocation<B>>, bool)],
    /// The messages for the other ranks if it is refused.
    pub(crate) refusals: &'a [Refusal],
}

impl<B: Backend> Uses<B> for &Launch<'_, B> {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        self.uses.iter().try_for_each(|(allocation, write)| each(&allocation.order, *write))
    }
}

impl<B: Backend> Core<B> {
    /// Compares devices, orders memory between streams, and launches.
    pub(crate) fn launch(&self, stream: &StreamCore<B>, launch: &Launch<'_, B>) -> Result<()> {
        let comm = self.comm()?;
        // Fast path: most launches repeat earlier ones. Memory that only this stream has used is on
        // its device, and the stream neither records nor is captured.
        let is_alone =
            |(allocation, _): &(&Arc<Allocation<B>>, _)| allocation.order.is_alone(stream);
        let is_known = stream.ordinal() == self.ordinal
            && !launch.uses.is_empty()
            && launch.uses.iter().all(is_alone);
        if !is_known {
            if let Some(error) = self.elsewhere(stream, launch) {
                return Err(self.refuse(launch.refusals, error));
            }
            if stream.records() {
                return match &mut *self.recording.borrow_mut() {
                    Some(recording) => recording.kernel(comm, launch),
                    None => Ok(()),
                };
            }
        }
        let booking = match is_known {
            true => Ok(Booking::of_known(stream, launch)),
            false => Booking::new(stream, launch),
        };
        // The device failed: without this refusal, the other ranks would wait for this one.
        let booking = booking.inspect_err(|error| self.health.fail(error.clone()))?;
        self.note(stream);
        let Launch { call, work, pieces, .. } = launch;
        let journal = self.journal.as_ref();
        let recorded =
            journal.map(|it| (it, it.begins_work(stream, call.operation.name(), call.site)));
        // SAFETY: they exist, as a `Kernels` of this communicator proves. The spans of the pieces
        // were checked and are borrowed for their use; the stream waits for earlier uses.
        let launched = unsafe { B::enqueue(comm, stream.raw(), call, *work, pieces) };
        if let Some((journal, number)) = recorded {
            journal.enqueued(stream, number, &launched);
        }
        drop(booking);
        launched
    }

    /// Refuses memory or a stream of another device, which type-erased ones may have, and a launch
    /// in a captured step.
    fn elsewhere(&self, stream: &StreamCore<B>, launch: &Launch<'_, B>) -> Option<Error> {
        let on = ("stream", stream.ordinal());
        let memory = launch.uses.iter().map(|(allocation, _)| ("buffer", allocation.ordinal()));
        let mut all = std::iter::once(on).chain(memory);
        let (operation, site) = (launch.call.operation.name(), launch.call.site);
        let Some((what, found)) = all.find(|(_, ordinal)| *ordinal != self.ordinal) else {
            return stream.in_a_step(operation, site);
        };
        let (kind, needed) = (B::KIND, self.ordinal);
        Some(OtherDevice { operation, what, kind, found, needed, site }.into())
    }
}

/// The address of a span.
pub(super) fn start<B: Backend>(span: &Span<'_, B>) -> *mut u8 {
    span.allocation().address().wrapping_byte_add(span.offset())
}
