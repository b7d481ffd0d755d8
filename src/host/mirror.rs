//! The device API for closures: barriers and peers' memory, so that code written for kernels runs
//! and can be tested without a GPU.
//!
//! Kernels cannot return errors, and neither can these functions. On an error the closure ends, and
//! the host wait for its stream reports the error, as it reports a panic.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;

use super::HostBackend;
use super::block::Touch;
use super::engine::{Brings, ENGINE, MemberId, announce};
use super::moves::Held;
use crate::backend::{DeviceShared, WindowId};
use crate::compute::{HeldWindow, Reach, Views};
use crate::error::{BadRange, Error, NoSuchRank, Site};
use crate::{AsRank, Element, Rank, element};

/// How long a closure sleeps while another one holds the memory.
const REST: Duration = Duration::from_micros(200);

/// Why a closure was ended.
pub(super) struct Ended(pub(super) Error);

/// Ends the closure that this thread runs. The host wait reports it; panic hooks are not called.
fn end(error: Error) -> ! {
    std::panic::resume_unwind(Box::new(Ended(error)))
}

/// One rank's part of a device communicator on the host.
#[derive(Debug)]
pub struct Mirror {
    brings: Brings,
    place: MemberId,
}

impl Mirror {
    pub(super) fn new(place: MemberId, id: WindowId) -> Self {
        let brings = Brings::new(place, id);
        ENGINE.make_device_comm(brings);
        Self { brings, place }
    }

    /// Adds it to this thread's next launch.
    pub(super) fn announce(&self) {
        announce(self.brings);
    }

    /// Every rank's part of a window; `None` if it is not registered.
    pub(super) fn parts(&self, window: WindowId) -> Option<Vec<Held>> {
        ENGINE.parts(self.place, window)
    }
}

/// Every rank's part of a window.
pub struct PeerParts {
    parts: Vec<Held>,
    /// How many elements each rank said when all agreed.
    lens: Vec<usize>,
}

impl PeerParts {
    pub(super) fn new(parts: Vec<Held>, lens: &dyn Fn(usize) -> usize) -> Self {
        let lens = (0..parts.len()).map(lens).collect();
        Self { parts, lens }
    }

    /// A rank's part, and how many elements of it there are: a process may say later that it has
    /// fewer than were agreed.
    pub(super) fn part<T: Element>(&self, rank: usize) -> Option<(&Held, usize)> {
        let (part, agreed) = self.parts.get(rank).zip(self.lens.get(rank))?;
        Some((part, (*agreed).min(part.bytes() / size_of::<T>())))
    }
}

/// A device communicator in a closure on the host, the counterpart of a kernel's `ncclDevComm`.
///
/// ```
/// use typed_nccl::{Host, Requirements, Result};
///
/// fn main() -> Result<()> {
///     Host::spmd(4, |place| {
///         let mut comm = place.init()?;
///         let api = comm.device_api()?;
///         let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(1))?;
///         let window = comm.window::<f32>(1)?;
///         let rank = comm.rank().index();
///         comm.stream().launch((&dev, dev.peers(&window)), move |(dev, window), ()| {
///             // To my right neighbour, by its address.
///             let right = window.peer((rank + 1) % dev.size());
///             right.set(0, rank as f32);
///             dev.lsa_barrier(0).sync();
///         })?;
///         assert_eq!(window.to_vec()?, [((rank + 3) % 4) as f32]);
///         comm.close_dev_comm(dev)?;
///         comm.finish()
///     })
///     .map(drop)
/// }
/// ```
#[derive(Clone, Copy)]
pub struct HostDevComm<'v>(&'v DeviceShared<HostBackend>);

impl<'v> HostDevComm<'v> {
    pub(crate) fn new(shared: &'v DeviceShared<HostBackend>) -> Self {
        Self(shared)
    }

    /// The next argument of a kernel's body.
    #[doc(hidden)]
    pub fn taken(views: &mut Views<'v>) -> Self {
        Self::new(views.dev_comm())
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.0.rank
    }

    /// The number of ranks. All of them reach each other's memory.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Barrier `index`. If it was not required, the closure ends with [`Error::NotRequired`].
    #[track_caller]
    pub fn lsa_barrier(&self, index: u32) -> HostBarrier<'v> {
        let site = Site::caller();
        match (self.0.lsa_barrier(index, site), self.0.mirror()) {
            (Ok(index), Some(mirror)) => HostBarrier { mirror, index },
            (Err(error), _) => end(error),
            // On the host every device communicator has one.
            (Ok(_), None) => end(self.0.ended()),
        }
    }
}

impl fmt::Debug for HostDevComm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostDevComm of rank {} of {}", self.rank(), self.size())
    }
}

/// A barrier of closures: those of all ranks that were given the same device communicator.
///
/// See the example of [`HostDevComm`].
#[derive(Clone, Copy)]
#[must_use = "`sync()` waits at it"]
pub struct HostBarrier<'v> {
    mirror: &'v Mirror,
    index: u32,
}

impl<'v> HostBarrier<'v> {
    /// The next argument of a kernel's body.
    #[doc(hidden)]
    pub fn taken(views: &mut Views<'v>) -> Self {
        let (shared, index) = views.barrier();
        HostDevComm::new(shared).lsa_barrier(index)
    }
}

impl HostBarrier<'_> {
    /// Waits until every rank's closure has called this as often as this one. What they did before
    /// is complete then. One closure of a rank uses a barrier at a time.
    ///
    /// If a rank certainly never comes, that is a deadlock; otherwise the wait for the stream
    /// passes its deadline. A lost rank ends the wait. In each case the closure ends here, and the
    /// host wait reports the error.
    pub fn sync(&self) {
        if let Err(error) = ENGINE.sync(self.mirror.brings, self.index as usize) {
            end(error);
        }
    }
}

impl fmt::Debug for HostBarrier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBarrier {}", self.index)
    }
}

/// A window in a closure on the host: every rank's part, by its address. For a
/// [`WindowSlice`](crate::WindowSlice), the same elements of every rank's part.
///
/// As on a GPU, only barriers order the ranks' accesses. Concurrent accesses of one process's ranks
/// are never torn: each read and each write locks its elements.
///
/// See the example of [`HostDevComm`].
#[derive(Clone, Copy)]
pub struct HostWindow<'v, T> {
    shared: &'v DeviceShared<HostBackend>,
    parts: &'v PeerParts,
    /// Where each rank's part begins, and its maximum length.
    start: usize,
    most: usize,
    elements: PhantomData<fn() -> T>,
}

impl<'v, T: Element> HostWindow<'v, T> {
    pub(crate) fn new(shared: &'v DeviceShared<HostBackend>, parts: &'v PeerParts) -> Self {
        Self { shared, parts, start: 0, most: usize::MAX, elements: PhantomData }
    }

    /// The next argument of a kernel's body.
    #[doc(hidden)]
    pub fn taken(views: &mut Views<'v>) -> Self {
        let window = views.window::<T, HeldWindow<HostBackend>>();
        let whole = Self::new(&window.shared, &window.peers);
        match window.reach {
            Reach::Whole | Reach::Written => whole,
            Reach::Part => whole.slice(window.start, window.len),
        }
    }

    pub(crate) fn slice(self, start: usize, len: usize) -> Self {
        Self { start, most: len, ..self }
    }

    /// The address of a rank's part, which may be this rank's own. A rank that is not in the
    /// communicator ends the closure with [`Error::NoSuchRank`].
    #[track_caller]
    pub fn peer(&self, rank: impl AsRank) -> HostPart<'v, T> {
        let (asked, size) = (rank.index(), self.parts.parts.len());
        let Some((part, len)) = self.parts.part::<T>(asked) else {
            let (operation, site, collective) = ("peer", Site::caller(), false);
            end(Error::from(NoSuchRank { operation, asked, size, site, collective }));
        };
        let (start, len) = (self.start, len.saturating_sub(self.start).min(self.most));
        HostPart { shared: self.shared, part, start, len, elements: PhantomData }
    }

    /// The number of elements in this rank's part, as in the CUDA body.
    pub fn len(&self) -> usize {
        self.own().len()
    }

    /// Whether this rank's part is empty.
    pub fn is_empty(&self) -> bool {
        self.own().is_empty()
    }

    /// This rank's part.
    #[track_caller]
    pub fn own(&self) -> HostPart<'v, T> {
        self.peer(self.shared.rank)
    }
}

impl<T> fmt::Debug for HostWindow<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostWindow of {} ranks", self.parts.parts.len())
    }
}

/// One rank's part of a window. A range past its end ends the closure with [`Error::BadRange`].
///
/// See the example of [`HostDevComm`].
#[derive(Clone, Copy)]
pub struct HostPart<'v, T> {
    shared: &'v DeviceShared<HostBackend>,
    part: &'v Held,
    start: usize,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

impl<T: Element> HostPart<'_, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the elements from `start` on.
    #[track_caller]
    pub fn read(&self, start: usize, to: &mut [T]) {
        let touch = self.touch(start..start.saturating_add(to.len()), false, Site::caller());
        let _guard = self.take(touch);
        // SAFETY: the range lies within the part, whose bytes are all initialised.
        let from = unsafe { touch.block.at(touch.start) };
        // SAFETY: as above; `to` is the caller's own, and every bit pattern is a `T`. The guard
        // keeps writers away, except the puts and writes of other processes (decision 079).
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr().cast(), touch.bytes) };
    }

    /// Overwrites the elements from `start` on.
    #[track_caller]
    pub fn write(&self, start: usize, from: &[T]) {
        let touch = self.touch(start..start.saturating_add(from.len()), true, Site::caller());
        let _guard = self.take(touch);
        // SAFETY: the range lies within the part.
        let to = unsafe { touch.block.at(touch.start) };
        // SAFETY: as above. The guard keeps every other use away, except those of other processes
        // (decision 079).
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().cast(), to, touch.bytes) };
    }

    /// Copies a range of elements.
    #[track_caller]
    pub fn to_vec(&self, range: Range<usize>) -> Vec<T> {
        // A range that does not fit is refused before memory is allocated for it.
        let _ = self.touch(range.clone(), false, Site::caller());
        let mut values = vec![element::zero::<T>(); range.len()];
        self.read(range.start, &mut values);
        values
    }

    /// Element `index`.
    #[track_caller]
    pub fn get(&self, index: usize) -> T {
        let mut value = [element::zero::<T>()];
        self.read(index, &mut value);
        value[0]
    }

    /// Overwrites element `index`.
    #[track_caller]
    pub fn set(&self, index: usize, value: T) {
        self.write(index, &[value]);
    }

    fn touch(&self, range: Range<usize>, write: bool, site: Site) -> Touch<'_> {
        let Range { start, end: last } = range;
        if start > last || last > self.len {
            end(Error::from(BadRange { start, end: last, len: self.len, site }));
        }
        let size = size_of::<T>();
        let (start, bytes) = ((self.start + start) * size, (last - start) * size);
        self.part.touch(start, bytes, write)
    }

    /// Waits until nothing else holds the range. A closure that holds it may wait for this one;
    /// then the communicator's end ends this one as well.
    fn take<'b>(&self, touch: Touch<'b>) -> Option<super::ranges::Guard<'b>> {
        loop {
            if let Ok(guard) = touch.take_beside() {
                return guard;
            }
            if let Some(Err(error)) =
                self.shared.mirror().map(|mirror| ENGINE.is_well(mirror.place))
            {
                end(error);
            }
            std::thread::sleep(REST);
        }
    }
}

impl<T> fmt::Debug for HostPart<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostPart of {} elements", self.len)
    }
}
