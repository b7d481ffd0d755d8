//! A device communicator without its world's type, shared by its value, its communicator and its
//! backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Requirements;
use crate::backend::{Backend, DeviceBytes, WindowId};
use crate::error::{Error, NotRequired, OtherDevice, Site, Stale};
use crate::health::Health;
use crate::memory::Allocation;
use crate::stamp::Maker;
use crate::stream::{Awaited, StreamCore, Takers, Taking};
use crate::{Rank, Result};

/// A device communicator. Any thread may record kernels here; graphs are recorded as uses of its
/// memory.
pub struct Shared<B: Backend> {
    pub(crate) id: WindowId,
    pub(crate) bytes: DeviceBytes<B::Mirror>,
    pub(crate) requirements: Requirements,
    pub(crate) rank: Rank,
    pub(crate) size: usize,
    pub(crate) lsa_size: usize,
    maker: Maker,
    /// Stand-in memory by which graphs refer to it.
    pub(crate) allocation: Arc<Allocation<B>>,
    health: Arc<Health>,
    deadline: Duration,
    takers: Takers<B>,
}

/// The device communicators of a launch, usually one. They stay alive as long as this value, and
/// the launch is recorded as a use of each.
#[allow(missing_debug_implementations, reason = "a part of a launch")]
pub struct Entered<'d, B: Backend> {
    first: Option<Alive<'d, B>>,
    more: Option<Box<Self>>,
}

struct Alive<'d, B: Backend> {
    shared: &'d Shared<B>,
    _taking: Taking<'d, B>,
}

impl<B: Backend> Default for Entered<'_, B> {
    fn default() -> Self {
        Self { first: None, more: None }
    }
}

impl<'d, B: Backend> Entered<'d, B> {
    fn push(&mut self, alive: Alive<'d, B>) {
        match self.first {
            None => self.first = Some(alive),
            Some(_) => self.more.get_or_insert_default().push(alive),
        }
    }

    fn all(&self) -> impl Iterator<Item = &'d Shared<B>> {
        let all = std::iter::successors(Some(self), |entered| entered.more.as_deref());
        all.filter_map(|entered| entered.first.as_ref()).map(|alive| alive.shared)
    }

    /// The communicators that made them.
    pub(crate) fn makers(&self) -> impl Iterator<Item = Maker> {
        self.all().map(|shared| shared.maker)
    }

    /// The stand-in memory for a graph.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Arc<Allocation<B>>, bool)> {
        self.all().map(|shared| (shared.allocation.clone(), false))
    }
}

/// Its rank, sizes and maker.
pub(crate) struct CommInfo {
    pub(crate) rank: Rank,
    pub(crate) size: usize,
    pub(crate) lsa_size: usize,
    pub(crate) maker: Maker,
}

impl<B: Backend> Shared<B> {
    pub(crate) fn new(
        id: WindowId,
        bytes: DeviceBytes<B::Mirror>,
        requirements: Requirements,
        (place, allocation): (CommInfo, Arc<Allocation<B>>),
        (health, deadline): (Arc<Health>, Duration),
    ) -> Self {
        let CommInfo { rank, size, lsa_size, maker } = place;
        let takers = Takers::default();
        Self {
            id,
            bytes,
            requirements,
            rank,
            size,
            lsa_size,
            maker,
            allocation,
            health,
            deadline,
            takers,
        }
    }

    /// Its bytes, as kernels take it.
    pub(crate) fn bytes(&self) -> &[u8] {
        let words = &self.bytes.words;
        // SAFETY: a word is eight initialised bytes; there are this many words.
        let bytes = unsafe {
            std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(&**words))
        };
        &bytes[..self.bytes.len.min(bytes.len())]
    }

    /// The form that closures on the host use.
    pub(crate) fn mirror(&self) -> Option<&B::Mirror> {
        self.bytes.mirror.as_ref()
    }

    /// Refuses a launch on another device.
    pub(crate) fn is_on(
        &self,
        stream: &StreamCore<B>,
        kind: &'static str,
        site: Site,
    ) -> Result<()> {
        let at = (self.allocation.ordinal(), stream.ordinal());
        Ok(OtherDevice::unless_same("launch", "device communicator", kind, at, site)?)
    }

    /// Passes it to this thread's next launch; call right before enqueueing.
    pub(crate) fn announce(&self) {
        B::announce(&self.bytes);
    }

    /// The barrier with this index, if it was required.
    pub(crate) fn lsa_barrier(&self, index: u32, site: Site) -> Result<u32> {
        let has = self.requirements.lsa_barriers;
        numbered("LSA barrier", "Requirements::lsa_barriers", index, has, site)
    }

    /// The error if its communicator has ended.
    pub(crate) fn ended(&self) -> Error {
        self.health.check().err().unwrap_or_else(|| self.health.ended())
    }

    /// Records that `stream` is about to run a kernel that takes it and waits for other ranks.
    #[inline]
    pub(crate) fn enter<'d>(
        &'d self,
        stream: &'d StreamCore<B>,
        site: Site,
        entered: &mut Entered<'d, B>,
    ) -> Result<()> {
        // Counted once per launch.
        if entered.all().any(|known| std::ptr::eq(known, self)) {
            return Ok(());
        }
        if stream.is_captured() {
            stream.captures_of(self.maker, self.health.name(), site)?;
        }
        let taking = self.takers.enter(stream).map_err(|why| self.stale(why))?;
        self.health.check()?;
        stream.note(&self.health, self.deadline);
        entered.push(Alive { shared: self, _taking: taking });
        Ok(())
    }

    /// The error if its communicator does not have it any more.
    #[cold]
    pub(crate) fn is_gone(&self) -> Error {
        self.stale("its communicator has ended, or went on with other ranks".to_owned())
    }

    #[cold]
    fn stale(&self, why: String) -> Error {
        let name = self.health.name();
        Stale { what: "device communicator", name, why }.into()
    }

    /// The points after which no kernel and no graph uses it.
    pub(crate) fn points(&self) -> Result<Vec<Awaited<B>>> {
        let mut points = self.takers.points()?;
        points.extend(self.allocation.order.points(true)?);
        Ok(points)
    }

    /// The streams whose work may still use it.
    #[cfg(feature = "cuda")]
    pub(crate) fn carriers(&self) -> Vec<B::Stream> {
        let mut carriers = self.takers.carriers();
        carriers.extend(self.allocation.order.carriers());
        carriers
    }

    /// The kernels' handle of a window of its communicator, while it is registered.
    #[cfg(feature = "cuda")]
    pub(crate) fn window(&self, id: WindowId) -> Option<u64> {
        self.bytes.windows.get(id)
    }

    /// Prevents further launches; kernels that take it already are on their streams.
    pub(crate) fn end(&self, why: &str) {
        self.takers.end(why);
    }
}

impl<B: Backend> fmt::Debug for Shared<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device communicator #{} of {} bytes", self.id, self.bytes.len)
    }
}

/// A number below what was required.
pub(crate) fn numbered(
    what: &'static str,
    option: &'static str,
    index: u32,
    has: u32,
    site: Site,
) -> Result<u32> {
    if index < has {
        return Ok(index);
    }
    let what = format!("{what} {index}");
    let mend = format!("{option}({})", u64::from(index) + 1);
    Err(NotRequired { what, has, mend, site }.into())
}
