//! Closures of the program, and copies, in a graph.

use std::sync::Arc;

use super::capture::Capture;
use super::recording::{Enqueue, Kernel, Step, lend};
use crate::backend::{Backend, Copies, Launches, Streams, form};
use crate::device_comm::Entered;
use crate::error::Site;
use crate::memory::Allocation;
use crate::stream::StreamAccess;
use crate::{
    Element, Numeric, OperandsOn, Primitive, RecordRead, Result, World, Writable, element, stream,
};

type Back<W> = super::Back<W>;
type Memory<W> = Arc<Allocation<Back<W>>>;

impl<W: World> Capture<'_, W> {
    /// Records a computation of your own, as [`Stream::launch`](crate::Stream::launch) enqueues
    /// one. On the host the closure runs at each launch of the graph. On a GPU it runs once, at the
    /// end of the capture, and the graph repeats what it enqueues on its stream. For closures that
    /// panic, see [`Graph::launch`](crate::Graph::launch).
    ///
    /// # Errors
    /// An operand on another device; a view past the end of its buffer; a device communicator of
    /// another communicator. Any of them fails the capture.
    #[track_caller]
    pub fn launch<A, F>(&self, operands: A, work: F) -> Result<()>
    where
        A: OperandsOn<W::Device>,
        F: for<'v, 'r> Fn(A::Views<'v>, <Back<W> as Launches>::Raw<'r>) + Send + Sync + 'static,
    {
        let site = Site::caller();
        let held = self.checked(stream::hold(self.stream, &operands, site))?;
        let mut entered = Entered::default();
        let access = StreamAccess::new(&self.stream.core, site);
        let may_enter = operands.enter(&access, &mut entered);
        self.own(may_enter, &entered)?;
        let mut uses: Vec<_> = entered.named().collect();
        let _ = operands.used(|(allocation, write)| {
            uses.push((allocation.clone(), write));
            Ok(())
        });
        let shared = Arc::new((held, work));
        let enqueue = move |stream: &<Back<W> as Streams>::Stream| {
            let shared = shared.clone();
            A::announce(&shared.0);
            <Back<W> as Launches>::launch(stream, site, move |raw| {
                stream::run::<W::Device, A>(&shared.0, site, |views| (shared.1)(views, raw));
            })
        };
        self.record("launch", uses, Box::new(enqueue), site)
    }

    /// Records a copy, as [`Stream::copy`](crate::Stream::copy) enqueues one.
    ///
    /// # Errors
    /// As [`Stream::copy`](crate::Stream::copy). Any of them fails the capture.
    #[track_caller]
    pub fn copy<'a, T, A, B>(&self, from: A, to: &mut B) -> Result<()>
    where
        T: Element,
        A: RecordRead<'a, W::Device, Elem = T>,
        B: Writable<W::Device, Elem = T>,
    {
        let site = Site::caller();
        let (from, to) = self.checked(self.stream.copied(&from.recorded(), to, site))?;
        let bytes = from.len() * size_of::<T>();
        let (from, to) =
            ((from.allocation().clone(), from.offset()), (to.allocation().clone(), to.offset()));
        let uses = both::<W>(&from.0, &to.0);
        let enqueue = move |stream: &<Back<W> as Streams>::Stream| {
            let (from, to) = ((&from.0, from.1), (&to.0, to.1));
            // SAFETY: the spans are in bounds and have equal lengths. The destination was borrowed
            // exclusively, so it is disjoint from the source. Each launch orders the uses.
            unsafe { <Back<W> as Copies>::copy(stream, from, to, bytes, site) }
        };
        self.record("copy", uses, Box::new(enqueue), site)
    }

    /// Records a conversion, as [`Stream::convert`](crate::Stream::convert) enqueues one.
    ///
    /// # Errors
    /// As [`Stream::convert`](crate::Stream::convert). Any of them fails the capture.
    #[track_caller]
    pub fn convert<'a, T, U, A, B>(&self, from: A, to: &mut B) -> Result<()>
    where
        T: Numeric,
        U: Numeric,
        A: RecordRead<'a, W::Device, Elem = T>,
        B: Writable<W::Device, Elem = U>,
    {
        let site = Site::caller();
        let converted = self.stream.converted::<T, U, B>(&from.recorded(), to, site);
        let (from, to) = self.checked(converted)?;
        let count = from.len();
        let (from, to) =
            ((from.allocation().clone(), from.offset()), (to.allocation().clone(), to.offset()));
        let uses = both::<W>(&from.0, &to.0);
        let enqueue = move |stream: &<Back<W> as Streams>::Stream| {
            // SAFETY: the spans are in bounds, have equal lengths, and are aligned for their types.
            // The destination was borrowed exclusively, so it is disjoint from the source. Each
            // launch orders the uses.
            unsafe {
                stream::convert_on::<Back<W>>(
                    stream,
                    (&from.0, from.1, T::DTYPE),
                    (&to.0, to.1, U::DTYPE),
                    count,
                    site,
                )
            }
        };
        self.record("convert", uses, Box::new(enqueue), site)
    }

    /// Records a fill, as [`Stream::fill`](crate::Stream::fill) enqueues one.
    ///
    /// # Errors
    /// As [`Stream::fill`](crate::Stream::fill). Any of them fails the capture.
    #[track_caller]
    pub fn fill<T: Primitive, B: Writable<W::Device, Elem = T>>(
        &self,
        to: &mut B,
        value: T,
    ) -> Result<()> {
        let site = Site::caller();
        let to = self.checked(self.stream.filled(to, site))?;
        let (offset, count, to) = (to.offset(), to.len(), to.allocation().clone());
        let (uses, value) = (vec![(to.clone(), true)], element::bytes(value));
        let enqueue = move |stream: &<Back<W> as Streams>::Stream| {
            let to = (&to, offset);
            // SAFETY: the span is in bounds and aligned for its type; each launch orders the use.
            unsafe { <Back<W> as Copies>::fill(stream, to, value, size_of::<T>(), count, site) }
        };
        self.record("fill", uses, Box::new(enqueue), site)
    }

    /// Accepts only device communicators of the graph's own communicator, with which the graph
    /// ends.
    pub(crate) fn own(&self, may_enter: Result<()>, entered: &Entered<'_, Back<W>>) -> Result<()> {
        let made = |maker| self.core.resources.made(maker, "device communicator");
        self.checked(may_enter.and_then(|()| entered.makers().try_for_each(made)))
    }

    /// Fails the capture if a call is wrong, even if the closure ignores the error.
    pub(crate) fn checked<R>(&self, checked: Result<R>) -> Result<R> {
        checked.map_err(|error| self.core.refuse(&[], error))
    }

    pub(crate) fn record(
        &self,
        operation: &'static str,
        uses: Vec<(Memory<W>, bool)>,
        enqueue: Enqueue<Back<W>>,
        site: Site,
    ) -> Result<()> {
        let comm = self.core.comm()?;
        match &mut *self.core.recording.borrow_mut() {
            Some(recording) => recording.work(comm, operation, uses, enqueue, site),
            None => Ok(()),
        }
    }
}

fn both<W: World>(from: &Memory<W>, to: &Memory<W>) -> Vec<(Memory<W>, bool)> {
    vec![(from.clone(), false), (to.clone(), true)]
}

impl<B: Backend> Step<B> {
    /// Enqueues the step on a capturing stream.
    pub(super) fn enqueue(&self, comm: &B::Comm, stream: &B::Stream) -> Result<()> {
        match self {
            Self::Operations(kept, _) => {
                let ops: Vec<_> = kept.iter().map(lend).collect();
                // SAFETY: the operations were validated when they were recorded. They run only when
                // the graph is launched, and each launch is ordered after the earlier uses of the
                // memory.
                unsafe { B::issue(comm, stream, &ops) }
            }
            Self::Work(work) => (work.enqueue)(stream),
            Self::Kernel(kernel) => {
                let Kernel { call, work, pieces, .. } = kernel;
                // SAFETY: the kernel was validated when it was recorded; it runs and is ordered as
                // above.
                unsafe { B::enqueue(comm, stream, call, *work, pieces) }
            }
        }
    }

    /// Whether it waits for signals.
    pub(super) fn waits(&self) -> bool {
        match self {
            Self::Operations(kept, _) => kept.iter().any(|kept| matches!(kept, form::Op::Wait(_))),
            Self::Work(_) | Self::Kernel(_) => false,
        }
    }
}
