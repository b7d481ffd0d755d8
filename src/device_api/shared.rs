//! A device communicator without its world's type: what its value, its communicator and its backend have.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::Requirements;
use super::handles::numbered;
use crate::backend::{Backend, DeviceBytes, WindowId};
use crate::communicator::{Health, Maker, ended};
use crate::error::{Error, OtherDevice, Site, Stale};
use crate::host::mirror::Mirror;
use crate::memory::Allocation;
use crate::stream::{StreamAccess, StreamCore};
use crate::{Device, Rank, Result};

/// A device communicator, whose kernels are booked here.
pub struct Shared<B: Backend> {
    pub(crate) id: WindowId,
    pub(super) bytes: DeviceBytes,
    pub(super) requirements: Requirements,
    pub(crate) rank: Rank,
    pub(crate) size: usize,
    pub(super) lsa_size: usize,
    maker: Maker,
    /// Memory that stands for it where its uses are booked, by whatever thread.
    pub(crate) allocation: Arc<Allocation<B>>,
    health: Arc<Health>,
    deadline: Duration,
    /// Why it is over.
    over: RwLock<Option<String>>,
}

/// A device communicator does not end as long as this lives: until a kernel that takes it is booked.
#[derive(Debug)]
pub(crate) struct Alive<'d> {
    _over: RwLockReadGuard<'d, Option<String>>,
    /// Whose it is.
    pub(crate) maker: Maker,
}

/// The device communicators that a launch brings: one, as a rule.
#[derive(Default, Debug)]
pub struct Entered<'d> {
    first: Option<Alive<'d>>,
    more: Vec<Alive<'d>>,
}

impl<'d> Entered<'d> {
    pub(crate) fn push(&mut self, alive: Alive<'d>) {
        match self.first {
            None => self.first = Some(alive),
            Some(_) => self.more.push(alive),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Alive<'d>> {
        self.first.iter().chain(&self.more)
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
        // Several threads may launch kernels that take it.
        allocation.order.set_in_window(true);
        allocation.order.set_constant();
        let over = RwLock::new(None);
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
            over,
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
        let other = OtherDevice { operation, what, kind: D::KIND, found, needed, site };
        Err(Error::OtherDevice(Box::new(other)))
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
    pub(crate) fn enter(&self, stream: &StreamCore<B>) -> Result<Alive<'_>> {
        let over = self.over.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &*over {
            let (name, why) = (self.health.name(), why.clone());
            return Err(Error::Stale(Box::new(Stale { what: "device communicator", name, why })));
        }
        self.health.check()?;
        stream.note(&self.health, self.deadline);
        Ok(Alive { _over: over, maker: self.maker })
    }

    /// What kernels are given of a window of its communicator, as long as it has it.
    pub(crate) fn window(&self, id: WindowId) -> Option<u64> {
        self.bytes.windows.get(id)
    }

    /// No kernel takes it any more.
    pub(crate) fn end(&self, why: &str) {
        self.over
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| why.to_owned());
    }
}

impl<B: Backend> fmt::Debug for Shared<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device communicator #{} of {} bytes", self.id, self.bytes.len)
    }
}
