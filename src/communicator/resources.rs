//! The resource table of a communicator.
//!
//! Operators, windows and registered buffers are owned values that hold a [`Key`]: the stamp of the
//! communicator that created them and a slot in its table. They borrow nothing. Every use compares
//! the stamp, so using a resource with another communicator of the same name is an error instead of
//! a wild pointer.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use crate::backend::{Backend, WindowId};
use crate::device_comm::Shared;
use crate::error::{Error, Site, Stale, WrongCommunicator};
use crate::lock::Mutex;
use crate::memory::{Allocation, Lease};
use crate::rank::Generation;
use crate::stamp::{Maker, Stamp};
use crate::stream::{Awaited, StreamCore};
use crate::{CftCounted, DType, GinOnly, Result, WindowKind};

/// The name of a device communicator in messages.
const DEV_COMM: &str = "device communicator";

/// A resource's place in the table of the communicator that made it.
#[derive(Debug)]
pub(crate) struct Key {
    lineage: u32,
    slot: u32,
    /// Whether the resource is still in the table, which keeps a slot while its key lives.
    alive: Arc<AtomicBool>,
}

impl Key {
    /// Whether the communicator still has the resource.
    pub(crate) fn is_valid(&self) -> bool {
        self.alive.load(Relaxed)
    }

    /// Refuses a window of another communicator than the device communicator's.
    pub(crate) fn is_of(&self, dev: &Self, name: &'static str) -> Result<()> {
        if self.lineage == dev.lineage {
            return Ok(());
        }
        let (what, made_by, used_on) = ("window", self.lineage, dev.lineage);
        Err(WrongCommunicator { what, maker: name, name, made_by, used_on }.into())
    }
}

/// The table of one communicator.
#[doc(hidden)]
pub struct Resources<B: Backend> {
    stamp: Stamp,
    name: &'static str,
    slots: Vec<Slot<B>>,
    /// Why values that depend on the ranks of an earlier generation are stale.
    changed: String,
    /// The size after the last renumbering of ranks, and where it happened.
    since: Option<(usize, Site)>,
}

/// A local resource of a rank.
pub(super) enum Own<'r, B: Backend> {
    Operator(&'r mut Made<B>),
    Buffer(&'r mut Held<B>),
}

/// All resources of a communicator.
pub(super) struct Everything<B: Backend> {
    /// In order of registration.
    pub(super) windows: Vec<Registered<B>>,
    pub(super) buffers: Vec<Held<B>>,
    pub(super) operators: Vec<B::Operator>,
    pub(super) device_comms: Vec<Arc<Shared<B>>>,
}

struct Slot<B: Backend> {
    alive: Weak<AtomicBool>,
    resource: Resource<B>,
}

enum Resource<B: Backend> {
    Operator(Made<B>),
    Window(Registered<B>),
    Buffer(Held<B>),
    DevComm(Arc<Shared<B>>),
    /// A resource that the communicator lost, and why.
    Lost(String),
    /// The slot is free.
    Free,
}

/// An operator, and the parameters that created it.
pub(crate) struct Made<B: Backend> {
    pub(crate) operator: B::Operator,
    pub(crate) dtype: DType,
    pub(crate) scalar: Scalar<B>,
}

/// The scalar of an operator.
#[derive(Clone)]
pub(crate) enum Scalar<B: Backend> {
    /// One element's bytes, padded with zeros.
    Host([u8; 8]),
    Device(Arc<Allocation<B>>),
}

/// A registered buffer's memory and registration.
pub(crate) struct Held<B: Backend> {
    pub(crate) lease: Arc<Lease<B>>,
    pub(crate) bytes: Range<usize>,
    pub(crate) handle: Arc<Handle>,
}

/// The backend's handle of a registered buffer. The registration lasts as long as this.
pub(crate) struct Handle(Mutex<Option<u64>>);

impl Handle {
    pub(crate) fn get(&self) -> Option<u64> {
        *self.0.lock()
    }

    pub(crate) fn set(&self, handle: Option<u64>) {
        *self.0.lock() = handle;
    }
}

/// A registered window. It stays in the table until the communicator ends even if its handle is
/// dropped, because deregistering is collective.
pub(crate) struct Registered<B: Backend> {
    pub(crate) id: WindowId,
    pub(crate) allocation: Arc<Allocation<B>>,
    pub(crate) handle: B::Window,
    /// The length of this rank's memory, in elements and in bytes.
    pub(crate) len: usize,
    pub(crate) bytes: usize,
    pub(crate) flags: u32,
    /// The ranks' lengths if they differ, shared with the window.
    pub(crate) lens: Option<SharedLens>,
}

/// The length of each rank's memory in a window, in elements. It changes when ranks are lost.
#[derive(Clone, Debug)]
pub(crate) struct SharedLens(Arc<Mutex<(Generation, Arc<[usize]>)>>);

impl SharedLens {
    pub(crate) fn new(generation: Generation, lens: Vec<usize>) -> Self {
        Self(Arc::new(Mutex::new((generation, lens.into()))))
    }

    /// The lengths by rank, and the generation of those ranks.
    pub(crate) fn get(&self) -> (Generation, Arc<[usize]>) {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, generation: Generation, lens: Vec<usize>) {
        *self.0.lock() = (generation, lens.into());
    }
}

impl<B: Backend> Resources<B> {
    pub(super) fn new(name: &'static str) -> Self {
        Self { stamp: Stamp::new(), name, slots: Vec::new(), changed: String::new(), since: None }
    }

    /// Identifies this communicator in values that it creates.
    pub(crate) fn maker(&self) -> Maker {
        Maker { stamp: self.stamp, name: self.name }
    }

    /// Refuses a value that another communicator created.
    pub(crate) fn made(&self, maker: Maker, what: &'static str) -> Result<()> {
        match maker.stamp == self.stamp {
            true => Ok(()),
            false => Err(self.wrong(maker, what)),
        }
    }

    /// Starts a generation with other ranks: values that depend on the old ranks become stale.
    pub(super) fn next_generation(&mut self, why: String) {
        self.stamp.generation += 1;
        self.changed = why;
    }

    /// Records that the ranks were renumbered, and their new number.
    pub(super) fn goes_on_with(&mut self, size: usize, site: Site) {
        self.since = Some((size, site));
        self.next_generation(format!(
            "it was made when the communicator had other ranks, before it went on with {size} (at {site})"
        ));
    }

    /// The size after the last renumbering of ranks, and where it happened.
    pub(super) fn since(&self) -> Option<(usize, Site)> {
        self.since
    }

    /// The registered windows, in order of registration.
    pub(super) fn windows(&mut self) -> Vec<&mut Registered<B>> {
        let mut windows: Vec<_> = self
            .slots
            .iter_mut()
            .filter_map(|slot| match &mut slot.resource {
                Resource::Window(window) => Some(window),
                _ => None,
            })
            .collect();
        windows.sort_unstable_by_key(|window| window.id);
        windows
    }

    /// The points after which nothing uses a window or a device communicator.
    pub(super) fn uses(&self) -> Result<Vec<Awaited<B>>> {
        let mut uses = Vec::new();
        for slot in &self.slots {
            match &slot.resource {
                Resource::Window(window) => uses.extend(window.allocation.order.points(true)?),
                Resource::DevComm(shared) => uses.extend(shared.points()?),
                _ => {}
            }
        }
        Ok(uses)
    }

    /// Empties the table. Values that name what was in it are stale, for this reason.
    pub(super) fn take_all(&mut self, why: &str) -> Everything<B> {
        let (mut windows, mut buffers, mut operators) = (Vec::new(), Vec::new(), Vec::new());
        let mut device_comms = Vec::new();
        for slot in &mut self.slots {
            match slot.lose(why) {
                Resource::Window(window) => windows.push(window),
                Resource::Buffer(held) => buffers.push(held),
                Resource::Operator(made) => operators.push(made.operator),
                Resource::DevComm(shared) => device_comms.push(shared),
                Resource::Lost(before) => slot.resource = Resource::Lost(before),
                Resource::Free => slot.resource = Resource::Free,
            }
        }
        windows.sort_unstable_by_key(|window| window.id);
        device_comms.sort_unstable_by_key(|shared| shared.id);
        Everything { windows, buffers, operators, device_comms }
    }

    /// Drops the windows that `keep` rejects, because not all ranks have them.
    pub(super) fn lose_windows(&mut self, keep: impl Fn(WindowId) -> bool, why: &str) {
        for slot in &mut self.slots {
            if let Resource::Window(window) = &slot.resource
                && !keep(window.id)
            {
                window.allocation.order.leave_window();
                slot.lose(why);
            }
        }
    }

    /// Ends its device communicators, so that no kernel accepts them.
    pub(super) fn end_device_comms(&mut self, why: &str) {
        self.lose_device_comms(why).iter().for_each(|shared| shared.end(why));
    }

    /// Takes its device communicators out of the table. The caller ends them.
    pub(super) fn lose_device_comms(&mut self, why: &str) -> Vec<Arc<Shared<B>>> {
        let all =
            self.slots.iter_mut().filter(|slot| matches!(slot.resource, Resource::DevComm(_)));
        let lost = all.map(|slot| slot.lose(why));
        lost.filter_map(|resource| match resource {
            Resource::DevComm(shared) => Some(shared),
            _ => None,
        })
        .collect()
    }

    /// Ends its device communicators but leaves them in the table.
    pub(super) fn stop_device_comms(&self, why: &str) {
        for slot in &self.slots {
            if let Resource::DevComm(shared) = &slot.resource {
                shared.end(why);
            }
        }
    }

    /// The ids of its device communicators.
    pub(crate) fn device_comms(&self) -> impl Iterator<Item = WindowId> {
        self.slots.iter().filter_map(|slot| match &slot.resource {
            Resource::DevComm(shared) => Some(shared.id),
            _ => None,
        })
    }

    pub(crate) fn add_device_comm(&mut self, shared: Arc<Shared<B>>) -> Key {
        self.add(Resource::DevComm(shared)).0
    }

    /// The device communicator of a key; `None` if the communicator has lost it.
    pub(crate) fn device_comm(&self, key: &Key) -> Result<Option<&Arc<Shared<B>>>> {
        match self.get(key, DEV_COMM)? {
            Resource::DevComm(shared) => Ok(Some(shared)),
            Resource::Lost(_) => Ok(None),
            _ => Err(self.wrong_key(key, DEV_COMM)),
        }
    }

    /// Takes a device communicator out of the table.
    pub(crate) fn take_device_comm(&mut self, key: &Key) -> Result<Option<Arc<Shared<B>>>> {
        if self.device_comm(key)?.is_none() {
            return Ok(None);
        }
        match self.free(key) {
            Some(Resource::DevComm(shared)) => Ok(Some(shared)),
            _ => Err(self.wrong_key(key, DEV_COMM)),
        }
    }

    /// The local resources, to be created again, by slot. A handle that is dropped takes its
    /// operator out.
    pub(super) fn own(&mut self) -> impl Iterator<Item = (usize, Own<'_, B>)> {
        self.slots.iter_mut().enumerate().filter_map(|(at, slot)| match &mut slot.resource {
            Resource::Operator(made) if slot.alive.strong_count() > 0 => {
                Some((at, Own::Operator(made)))
            }
            Resource::Buffer(held) => Some((at, Own::Buffer(held))),
            _ => None,
        })
    }

    /// Adds an operator. Returns an old one whose handle is gone, if its slot was reused.
    pub(super) fn add_operator(&mut self, made: Made<B>) -> (Key, Option<B::Operator>) {
        let (key, old) = self.add(Resource::Operator(made));
        match old {
            Some(Resource::Operator(old)) => (key, Some(old.operator)),
            _ => (key, None),
        }
    }

    pub(crate) fn add_window(&mut self, window: Registered<B>) -> Key {
        self.add(Resource::Window(window)).0
    }

    /// Adds a registered buffer. The `Weak` tells its handle whether the registration still stands.
    pub(crate) fn add_buffer(
        &mut self,
        lease: Arc<Lease<B>>,
        bytes: Range<usize>,
        handle: Option<u64>,
    ) -> (Key, Weak<Handle>) {
        let handle = Arc::new(Handle(Mutex::new(handle)));
        let seen = Arc::downgrade(&handle);
        (self.add(Resource::Buffer(Held { lease, bytes, handle })).0, seen)
    }

    fn add(&mut self, resource: Resource<B>) -> (Key, Option<Resource<B>>) {
        let alive = Arc::new(AtomicBool::new(true));
        let slot = Slot { alive: Arc::downgrade(&alive), resource };
        let free = self.slots.iter().position(Slot::is_free);
        let index = free.unwrap_or(self.slots.len());
        let old = match self.slots.get_mut(index) {
            Some(old) => Some(mem::replace(old, slot).resource),
            None => {
                self.slots.push(slot);
                None
            }
        };
        let slot = u32::try_from(index).unwrap_or(u32::MAX);
        (Key { lineage: self.stamp.lineage, slot, alive }, old)
    }

    /// Records that the last operation of `stream` orders peers' writes to any window.
    pub(crate) fn windows_written(&self, stream: &StreamCore<B>) {
        for slot in &self.slots {
            if let Resource::Window(window) = &slot.resource {
                window.allocation.order.arrived(stream, stream.last_seq());
            }
        }
    }

    /// The ids of the windows and device communicators that this memory belongs to.
    pub(crate) fn named_by<'m>(
        &self,
        memory: impl Iterator<Item = &'m Arc<Allocation<B>>>,
    ) -> Vec<WindowId> {
        let named = self.slots.iter().filter_map(|slot| match &slot.resource {
            Resource::Window(window) => Some((Arc::as_ptr(&window.allocation), window.id)),
            Resource::DevComm(shared) => Some((Arc::as_ptr(&shared.allocation), shared.id)),
            _ => None,
        });
        let by_memory: HashMap<_, _> = named.collect();
        memory.filter_map(|memory| by_memory.get(&Arc::as_ptr(memory)).copied()).collect()
    }

    /// The window of a key.
    pub(crate) fn window(&self, key: &Key) -> Result<&Registered<B>> {
        match self.get(key, "window")? {
            Resource::Window(window) => Ok(window),
            Resource::Lost(why) => Err(self.stale("window", why.clone())),
            _ => Err(self.wrong_key(key, "window")),
        }
    }

    /// Whether the communicator has lost this window.
    pub(crate) fn is_lost(&self, key: &Key) -> bool {
        matches!(self.get(key, "window"), Ok(Resource::Lost(_)))
    }

    /// Takes a window out of the table.
    pub(crate) fn take_window(&mut self, key: &Key) -> Result<Registered<B>> {
        self.window(key)?;
        match self.free(key) {
            Some(Resource::Window(window)) => Ok(window),
            _ => Err(self.wrong_key(key, "window")),
        }
    }

    /// The registered buffer of a key.
    pub(crate) fn buffer(&self, key: &Key) -> Result<&Held<B>> {
        match self.get(key, "buffer registration")? {
            Resource::Buffer(held) => Ok(held),
            Resource::Lost(why) => Err(self.stale("buffer registration", why.clone())),
            _ => Err(self.wrong_key(key, "buffer registration")),
        }
    }

    /// Takes a registered buffer out of the table.
    pub(crate) fn take_buffer(&mut self, key: &Key) -> Result<Held<B>> {
        self.buffer(key)?;
        match self.free(key) {
            Some(Resource::Buffer(held)) => Ok(held),
            _ => Err(self.wrong_key(key, "buffer registration")),
        }
    }

    /// Whether memory belongs to a window of this communicator.
    pub(crate) fn has_window_of(&self, memory: &Arc<Allocation<B>>) -> bool {
        self.slots.iter().any(|slot| match &slot.resource {
            Resource::Window(window) => Arc::ptr_eq(&window.allocation, memory),
            _ => false,
        })
    }

    /// Whether these bytes are registered with this communicator such that NCCL takes the
    /// registered path for transfers of them.
    pub(crate) fn knows(&self, memory: &Arc<Allocation<B>>, bytes: &Range<usize>) -> bool {
        let holds = |allocation, known: &Range<usize>| {
            Arc::ptr_eq(allocation, memory) && known.start <= bytes.start && bytes.end <= known.end
        };
        self.slots.iter().any(|slot| match &slot.resource {
            // For windows that only kernels use, it is not documented what NCCL registers.
            Resource::Window(window) => {
                let for_all = window.flags & (GinOnly::BITS | CftCounted::BITS) == 0;
                for_all && holds(&window.allocation, &(0..window.bytes))
            }
            // NCCL takes no shorter path for other memory, however it is registered.
            Resource::Buffer(held) => {
                memory.is_nccls() && holds(held.lease.allocation(), &held.bytes)
            }
            Resource::Operator(_) | Resource::DevComm(_) | Resource::Lost(_) | Resource::Free => {
                false
            }
        })
    }

    fn free(&mut self, key: &Key) -> Option<Resource<B>> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        slot.end();
        Some(mem::replace(&mut slot.resource, Resource::Free))
    }

    /// The operator of a key.
    pub(crate) fn operator(&self, key: &Key) -> Result<&B::Operator> {
        match self.get(key, "PreMulSum")? {
            Resource::Operator(made) => Ok(&made.operator),
            Resource::Lost(why) => Err(self.stale("PreMulSum", why.clone())),
            _ => Err(self.wrong_key(key, "PreMulSum")),
        }
    }

    /// The memory of an operator's scalar.
    pub(crate) fn scalar(&self, key: &Key) -> Result<Arc<Allocation<B>>> {
        match self.get(key, "PreMulSum")? {
            Resource::Operator(Made { scalar: Scalar::Device(scalar), .. }) => Ok(scalar.clone()),
            Resource::Lost(why) => Err(self.stale("PreMulSum", why.clone())),
            _ => Err(self.wrong_key(key, "PreMulSum")),
        }
    }

    fn get(&self, key: &Key, what: &'static str) -> Result<&Resource<B>> {
        match self.slots.get(key.slot as usize) {
            Some(slot) if key.lineage == self.stamp.lineage => Ok(&slot.resource),
            _ => Err(self.wrong_key(key, what)),
        }
    }

    #[cold]
    fn wrong_key(&self, key: &Key, what: &'static str) -> Error {
        // The types have compared the names.
        let stamp = Stamp { lineage: key.lineage, ..self.stamp };
        self.wrong(Maker { stamp, name: self.name }, what)
    }

    #[cold]
    pub(crate) fn stale(&self, what: &'static str, why: String) -> Error {
        Stale { what, name: self.name, why }.into()
    }

    #[cold]
    fn wrong(&self, maker: Maker, what: &'static str) -> Error {
        if maker.stamp.lineage == self.stamp.lineage && maker.stamp != self.stamp {
            return self.stale(what, self.changed.clone());
        }
        let (made_by, used_on) = (maker.stamp.lineage, self.stamp.lineage);
        WrongCommunicator { what, maker: maker.name, name: self.name, made_by, used_on }.into()
    }
}

impl<B: Backend> Drop for Resources<B> {
    fn drop(&mut self) {
        self.slots.iter().for_each(Slot::end);
    }
}

impl<B: Backend> Slot<B> {
    /// Tells the value that names it that the communicator has it no more.
    fn end(&self) {
        if let Some(alive) = self.alive.upgrade() {
            alive.store(false, Relaxed);
        }
    }

    /// Takes the resource, and keeps the reason.
    fn lose(&mut self, why: &str) -> Resource<B> {
        self.end();
        mem::replace(&mut self.resource, Resource::Lost(why.to_owned()))
    }

    /// Whether the slot can be reused: an operator's once its handle is dropped, others' once they
    /// are deregistered.
    fn is_free(&self) -> bool {
        match self.resource {
            Resource::Free => true,
            Resource::Operator(_) | Resource::Lost(_) => self.alive.strong_count() == 0,
            Resource::Window(_) | Resource::Buffer(_) | Resource::DevComm(_) => false,
        }
    }
}
