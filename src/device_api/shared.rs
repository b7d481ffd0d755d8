//! A device communicator without its world's type: what its value, its communicator and its backend have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Requirements;
use super::handles::numbered;
use crate::backend::{Backend, DeviceBytes, WindowId};
use crate::communicator::{Health, Maker, ended};
use crate::error::{Error, OtherDevice, Site, Stale};
use crate::host::mirror::Mirror;
use crate::memory::Allocation;
use crate::stream::{Awaited, StreamAccess, Takers, Taking};
use crate::{Device, Rank, Result};

/// A device communicator. Its kernels are noted here, by whatever thread; its graphs are booked.
pub struct Shared<B: Backend> {
    pub(crate) id: WindowId,
    pub(super) bytes: DeviceBytes,
    pub(super) requirements: Requirements,
    pub(crate) rank: Rank,
    pub(crate) size: usize,
    pub(super) lsa_size: usize,
    maker: Maker,
    /// Memory that stands for it where graphs name it.
    pub(crate) allocation: Arc<Allocation<B>>,
    health: Arc<Health>,
    deadline: Duration,
    takers: Takers<B>,
}

/// The device communicators that a launch brings: one, as a rule. They do not end as long as this lives, and
/// the launch is a use of them.
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

    /// Whose they are.
    pub(crate) fn makers(&self) -> impl Iterator<Item = Maker> {
        self.all().map(|shared| shared.maker)
    }

    /// What stands for them in a graph.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Arc<Allocation<B>>, bool)> {
        self.all().map(|shared| (shared.allocation.clone(), false))
    }
}

/// Of whom and where it is.
pub(super) struct Place {
    pub(super) rank: Rank,
    pub(super) size: usize,
    pub(super) lsa_size: usize,
    pub(super) maker: Maker,
}

impl<B: Backend> Shared<B> {
    pub(super) fn new(
        id: WindowId,
        bytes: DeviceBytes,
        requirements: Requirements,
        (place, allocation): (Place, Arc<Allocation<B>>),
        (health, deadline): (Arc<Health>, Duration),
    ) -> Self {
        let Place { rank, size, lsa_size, maker } = place;
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
        // SAFETY: a word is eight bytes, all of them initialised; there are so many words.
        let bytes = unsafe {
            std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(&**words))
        };
        &bytes[..self.bytes.len.min(bytes.len())]
    }

    /// What closures of the host have of it.
    pub(crate) fn mirror(&self) -> Option<&Mirror> {
        self.bytes.mirror.as_ref()
    }

    /// Refuses a launch on another device than its own.
    pub(crate) fn is_on<D: Device<Backend = B>>(&self, stream: &StreamAccess<'_, D>) -> Result<()> {
        let (found, needed) = (self.allocation.ordinal(), stream.core.ordinal());
        if found == needed {
            return Ok(());
        }
        let (operation, what, site) = ("launch", "device communicator", stream.site);
        Err(OtherDevice { operation, what, kind: D::KIND, found, needed, site }.into())
    }

    /// The next launch of this thread is given it: called right before it is enqueued.
    pub(crate) fn announce(&self) {
        B::announce(&self.bytes);
    }

    /// The barrier of this number, if it was required.
    pub(crate) fn lsa_barrier(&self, index: u32, site: Site) -> Result<u32> {
        let has = self.requirements.lsa_barriers;
        numbered("LSA barrier", "Requirements::lsa_barriers", index, has, site)
    }

    /// Its communicator is over.
    pub(crate) fn ended(&self) -> Error {
        self.health.check().err().unwrap_or_else(|| ended(&self.health))
    }

    /// Notes that `stream` is about to carry a kernel that takes it, which waits for other ranks.
    #[inline]
    pub(crate) fn enter<'d, D: Device<Backend = B>>(
        &'d self,
        &StreamAccess { core: stream, site }: &StreamAccess<'d, D>,
        entered: &mut Entered<'d, B>,
    ) -> Result<()> {
        // A launch has it once.
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

    #[cold]
    fn stale(&self, why: String) -> Error {
        let name = self.health.name();
        Stale { what: "device communicator", name, why }.into()
    }

    /// The points after which no kernel and no graph has it.
    pub(super) fn points(&self) -> Result<Vec<Awaited<B>>> {
        let mut points = self.takers.points()?;
        points.extend(self.allocation.order.points(true)?);
        Ok(points)
    }

    /// The streams whose work may still have it.
    #[cfg(feature = "cuda")]
    pub(crate) fn carriers(&self) -> Vec<B::Stream> {
        let mut carriers = self.takers.carriers();
        carriers.extend(self.allocation.order.carriers());
        carriers
    }

    /// What kernels are given of a window of its communicator, as long as it has it.
    pub(crate) fn window(&self, id: WindowId) -> Option<u64> {
        self.bytes.windows.get(id)
    }

    /// No kernel takes it any more; those that do are on their streams.
    pub(crate) fn end(&self, why: &str) {
        self.takers.end(why);
    }
}

impl<B: Backend> fmt::Debug for Shared<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device communicator #{} of {} bytes", self.id, self.bytes.len)
    }
}
