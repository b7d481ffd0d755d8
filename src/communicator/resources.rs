//! The resource table: what belongs to one communicator, kept by it.
//!
//! Operators (and later windows and graphs) are owned values that hold a [`Key`]: the stamp of the
//! communicator that made them and a slot in its table. They borrow nothing. Every use compares the
//! stamp, so a resource of another communicator of the same name is an error, not a wild pointer.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use crate::Result;
use crate::backend::Backend;
use crate::error::{Error, WrongCommunicator};

/// Which communicator (lineage) and which incarnation of it (generation).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
}

impl<B: Backend> Resources<B> {
    pub(super) fn new(name: &'static str) -> Self {
        Self { stamp: Stamp::new(), name, slots: Vec::new() }
    }

    pub(super) fn add_operator(&mut self, operator: B::Operator) -> Key {
        self.add(Resource::Operator(operator))
    }

    fn add(&mut self, resource: Resource<B>) -> Key {
        let alive = Arc::new(());
        let slot = Slot { alive: Arc::downgrade(&alive), resource };
        let free = self.slots.iter().position(|slot| slot.alive.strong_count() == 0);
        let index = match free {
            Some(index) => {
                self.slots[index] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        let slot = u32::try_from(index).unwrap_or(u32::MAX);
        Key { stamp: self.stamp, slot, _alive: alive }
    }

    /// The operator behind a key.
    pub(crate) fn operator(&self, key: &Key) -> Result<B::Operator> {
        match self.get(key, "PreMulSum")? {
            Resource::Operator(operator) => Ok(*operator),
        }
    }

    fn get(&self, key: &Key, what: &'static str) -> Result<&Resource<B>> {
        match self.slots.get(key.slot as usize) {
            Some(slot) if key.stamp == self.stamp => Ok(&slot.resource),
            _ => Err(Error::WrongCommunicator(Box::new(WrongCommunicator {
                what,
                name: self.name,
                made_by: key.stamp.lineage,
                used_on: self.stamp.lineage,
            }))),
        }
    }
}
