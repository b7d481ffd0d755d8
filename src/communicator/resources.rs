//! The resource table: what belongs to one communicator, kept by it.
//!
//! Operators (and later windows and graphs) are owned values that hold a [`Key`]: the stamp of the
//! communicator that made them and a slot in its table. They borrow nothing. Every use compares the
//! stamp, so a resource of another communicator of the same name is an error, not a wild pointer.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use crate::Result;
use crate::backend::{Backend, WindowId};
use crate::error::{Error, WrongCommunicator};
use crate::memory::Allocation;
use crate::stream::StreamCore;

/// Which communicator (lineage) and which incarnation of it (generation).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stamp {
    lineage: u32,
    generation: u32,
}

impl Stamp {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self { lineage: NEXT.fetch_add(1, Relaxed), generation: 0 }
    }
}

/// Which communicator made a value that is no resource of its own: a signal, declared lengths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Maker {
    stamp: Stamp,
    name: &'static str,
}

/// A resource's place in the table of the communicator that made it.
pub(crate) struct Key {
    stamp: Stamp,
    slot: u32,
    /// The table keeps a slot as long as its key lives.
    _alive: Arc<()>,
}

/// The table of one communicator.
#[doc(hidden)]
pub struct Resources<B: Backend> {
    stamp: Stamp,
    name: &'static str,
    slots: Vec<Slot<B>>,
}

struct Slot<B: Backend> {
    alive: Weak<()>,
    resource: Resource<B>,
}

enum Resource<B: Backend> {
    Operator(B::Operator),
    Window(Registered<B>),
    Buffer {
        _allocation: Arc<Allocation<B>>,
        _alive: Arc<()>,
    },
    /// Nothing: the slot is free.
    Free,
}

/// A registered window. It stays here when its handle is dropped (parked), until the communicator
/// ends: deregistration is everybody's.
pub(crate) struct Registered<B: Backend> {
    pub(crate) id: WindowId,
    pub(crate) allocation: Arc<Allocation<B>>,
    pub(crate) handle: B::Window,
}

impl<B: Backend> Resources<B> {
    pub(super) fn new(name: &'static str) -> Self {
        Self { stamp: Stamp::new(), name, slots: Vec::new() }
    }

    /// What tells values that this communicator made.
    pub(crate) fn maker(&self) -> Maker {
        Maker { stamp: self.stamp, name: self.name }
    }

    /// Refuses a value that another communicator made.
    pub(crate) fn made(&self, maker: Maker, what: &'static str) -> Result<()> {
        match maker.stamp == self.stamp {
            true => Ok(()),
            false => Err(self.wrong(maker, what)),
        }
    }

    /// Adds an operator; gives one whose handle is gone, if that made the place free.
    pub(super) fn add_operator(&mut self, operator: B::Operator) -> (Key, Option<B::Operator>) {
        let (key, old) = self.add(Resource::Operator(operator));
        match old {
            Some(Resource::Operator(old)) => (key, Some(old)),
            _ => (key, None),
        }
    }

    pub(crate) fn add_window(&mut self, window: Registered<B>) -> Key {
        self.add(Resource::Window(window)).0
    }

    /// Keeps a registered buffer's memory; the handle sees by the `Weak` whether it still stands.
    pub(crate) fn add_buffer(&mut self, allocation: Arc<Allocation<B>>) -> (Key, Weak<()>) {
        let alive = Arc::new(());
        let seen = Arc::downgrade(&alive);
        (self.add(Resource::Buffer { _allocation: allocation, _alive: alive }).0, seen)
    }

    fn add(&mut self, resource: Resource<B>) -> (Key, Option<Resource<B>>) {
        let alive = Arc::new(());
        let slot = Slot { alive: Arc::downgrade(&alive), resource };
        let free = self.slots.iter().position(Slot::is_free);
        let index = free.unwrap_or(self.slots.len());
        let old = match self.slots.get_mut(index) {
            Some(old) => Some(std::mem::replace(old, slot).resource),
            None => {
                self.slots.push(slot);
                None
            }
        };
        let slot = u32::try_from(index).unwrap_or(u32::MAX);
        (Key { stamp: self.stamp, slot, _alive: alive }, old)
    }

    /// What peers wrote to any window is there after the last operation of `stream`.
    pub(crate) fn windows_written(&self, stream: &StreamCore<B>) {
        for slot in &self.slots {
            if let Resource::Window(window) = &slot.resource {
                window.allocation.order.arrived(stream, stream.last_seq());
            }
        }
    }

    /// The window behind a key.
    pub(crate) fn window(&self, key: &Key) -> Result<&Registered<B>> {
        match self.get(key, "window")? {
            Resource::Window(window) => Ok(window),
            _ => Err(self.wrong_key(key, "window")),
        }
    }

    /// Takes a window out of the table.
    pub(crate) fn take_window(&mut self, key: &Key) -> Result<Registered<B>> {
        self.window(key)?;
        match self.free(key) {
            Some(Resource::Window(window)) => Ok(window),
            _ => Err(self.wrong_key(key, "window")),
        }
    }

    /// Takes a registered buffer out of the table.
    pub(crate) fn take_buffer(&mut self, key: &Key) -> Result<()> {
        self.get(key, "buffer registration")?;
        self.free(key);
        Ok(())
    }

    fn free(&mut self, key: &Key) -> Option<Resource<B>> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        Some(std::mem::replace(&mut slot.resource, Resource::Free))
    }

    /// The operator behind a key.
    pub(crate) fn operator(&self, key: &Key) -> Result<B::Operator> {
        match self.get(key, "PreMulSum")? {
            Resource::Operator(operator) => Ok(operator.clone()),
            _ => Err(self.wrong_key(key, "PreMulSum")),
        }
    }

    fn get(&self, key: &Key, what: &'static str) -> Result<&Resource<B>> {
        match self.slots.get(key.slot as usize) {
            Some(slot) if key.stamp == self.stamp => Ok(&slot.resource),
            _ => Err(self.wrong_key(key, what)),
        }
    }

    #[cold]
    fn wrong_key(&self, key: &Key, what: &'static str) -> Error {
        // The types compare names.
        self.wrong(Maker { stamp: key.stamp, name: self.name }, what)
    }

    #[cold]
    fn wrong(&self, maker: Maker, what: &'static str) -> Error {
        Error::WrongCommunicator(Box::new(WrongCommunicator {
            what,
            maker: maker.name,
            name: self.name,
            made_by: maker.stamp.lineage,
            used_on: self.stamp.lineage,
        }))
    }
}

impl<B: Backend> Slot<B> {
    /// Whether another resource may have it: an operator goes with its handle, the rest with its
    /// deregistration.
    fn is_free(&self) -> bool {
        match self.resource {
            Resource::Free => true,
            Resource::Operator(_) => self.alive.strong_count() == 0,
            Resource::Window(_) | Resource::Buffer { .. } => false,
        }
    }
}
