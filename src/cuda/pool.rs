//! Unused memory, reused once the streams that used it have passed.
//!
//! The driver's own free waits for the device, and so for the peers of whatever runs there. Only
//! `trim` calls it, and an allocation that runs out of memory.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::result;

use super::block::Raw;
use super::event::Event;
use super::{CudaStream, Gpu, driver};
use crate::Result;
use crate::backend::{AllocKind, Owner};
use crate::lock::{Mutex, MutexGuard};

#[derive(Default)]
pub(super) struct BlockPool {
    state: Mutex<State>,
    /// Held by a thread that asks the driver what is over, and so for long if the driver makes it
    /// wait. Never taken to return memory.
    asking: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// By allocator and size.
    free: HashMap<(AllocKind, usize), Vec<Raw>>,
    waiting: Vec<Waiting>,
}

/// Memory that enqueued work may still use.
struct Waiting {
    block: Kept,
    after: After,
}

enum Kept {
    Ours(Raw),
    /// The owner of adopted memory.
    Theirs(Owner),
}

/// Values to drop once nothing is locked.
#[expect(dead_code, reason = "kept to be dropped")]
enum Over {
    After(After),
    Owner(Owner),
}

enum After {
    /// Work on these streams, for which no event is recorded yet.
    Streams(Vec<Arc<CudaStream>>),
    /// All work on the device. These streams are released with it.
    Device(#[expect(dead_code, reason = "kept to be dropped")] Vec<Arc<CudaStream>>),
    Events(Vec<Event>),
}

impl BlockPool {
    /// Takes a block back. Calls neither the driver nor NCCL.
    pub(super) fn retire(&self, block: Raw, streams: Vec<Arc<CudaStream>>) {
        let after = After::Streams(streams);
        self.state.lock().waiting.push(Waiting { block: Kept::Ours(block), after });
    }

    /// Takes back a block that other libraries' streams may use, or its owner. Calls neither the
    /// driver nor NCCL.
    pub(super) fn retire_exported(
        &self,
        block: Raw,
        owner: Option<Owner>,
        streams: Vec<Arc<CudaStream>>,
    ) {
        let block = owner.map_or(Kept::Ours(block), Kept::Theirs);
        let after = After::Device(streams);
        self.state.lock().waiting.push(Waiting { block, after });
    }

    /// Drops the owner of adopted memory once these streams have passed their present work: now if
    /// they have, else when memory is next adopted, allocated or returned.
    pub(super) fn release(&self, gpu: &'static Gpu, owner: Owner, streams: Vec<Arc<CudaStream>>) {
        let (block, after) = (Kept::Theirs(owner), After::Streams(streams));
        self.state.lock().waiting.push(Waiting { block, after });
        self.look(gpu);
    }

    /// Drops everything that is no longer in use, unless another thread is at it.
    pub(super) fn look(&self, gpu: &'static Gpu) {
        if gpu.bind().is_err() {
            return;
        }
        let Some(asking) = self.asking.try_lock() else { return };
        let done = self.collect(gpu, &asking);
        drop(asking);
        drop(done);
    }

    /// Moves finished blocks to the free list; returns everything to drop once nothing is locked.
    fn collect(&self, gpu: &'static Gpu, _asking: &MutexGuard<'_, ()>) -> Vec<Over> {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        // The driver may not answer, so it is asked without the lock.
        let mut asked = State { waiting, ..State::default() };
        let done = asked.collect(gpu);
        let mut state = self.state.lock();
        for (class, mut blocks) in asked.free {
            state.free.entry(class).or_default().append(&mut blocks);
        }
        state.waiting.append(&mut asked.waiting);
        done
    }

    /// Looks at the blocks, after those that are no longer in use were made free.
    fn collected<R>(&self, gpu: &'static Gpu, look: impl FnOnce(&mut State) -> R) -> R {
        let asking = self.asking.lock();
        let done = self.collect(gpu, &asking);
        let found = look(&mut self.state.lock());
        drop(asking);
        drop(done);
        found
    }

    /// A free block of this size, if there is one.
    pub(super) fn take(&self, gpu: &'static Gpu, kind: AllocKind, bytes: usize) -> Option<Raw> {
        self.collected(gpu, |state| state.free.get_mut(&(kind, bytes))?.pop())
    }

    /// The number of free bytes, and of bytes that enqueued work may still use.
    pub(super) fn bytes(&self, gpu: &'static Gpu) -> (usize, usize) {
        self.collected(gpu, |state| {
            let free = state.free.values().flatten().map(|block| block.bytes).sum();
            let in_use = state.waiting.iter().map(|waiting| match &waiting.block {
                Kept::Ours(block) => block.bytes,
                Kept::Theirs(_) => 0,
            });
            (free, in_use.sum())
        })
    }

    /// Waits for the device if nothing else shows when other libraries are done with a block.
    fn settle(&self, gpu: &'static Gpu) -> Result<()> {
        let unknown = |waiting: &mut Waiting| matches!(waiting.after, After::Device(_));
        let mut over: Vec<Waiting> =
            self.collected(gpu, |state| state.waiting.extract_if(.., unknown).collect());
        if over.is_empty() {
            return Ok(());
        }
        let waited = driver::wait_for_all(gpu.ordinal());
        if waited.is_ok() {
            over.iter_mut().for_each(|waiting| waiting.after = After::Events(Vec::new()));
        }
        self.state.lock().waiting.append(&mut over);
        waited
    }

    /// Returns every free block to its allocator.
    pub(super) fn trim(&self, gpu: &'static Gpu) -> Result<()> {
        self.settle(gpu)?;
        let free = self.collected(gpu, |state| std::mem::take(&mut state.free));
        let mut outcome = Ok(());
        for block in free.into_values().flatten() {
            if let Some(alias) = block.alias {
                // SAFETY: all work that used the block is over.
                unsafe { alias.unmap() };
            }
            let freed = match block.kind {
                // SAFETY: the pool owned it, and all work that used it is over.
                AllocKind::Plain => unsafe { result::free_sync(block.address) }
                    .map_err(|error| driver::failed("freeing memory", gpu.ordinal(), error)),
                // SAFETY: as above; no window names it any more.
                AllocKind::Nccl => unsafe { crate::nccl::free(block.address) },
            };
            outcome = outcome.and(freed);
        }
        outcome
    }
}

impl State {
    /// Moves finished blocks to the free list; returns everything to drop.
    fn collect(&mut self, gpu: &'static Gpu) -> Vec<Over> {
        let mut done = Vec::new();
        let mut still = Vec::with_capacity(self.waiting.len());
        for Waiting { block, mut after } in std::mem::take(&mut self.waiting) {
            match after.events(gpu) {
                Ok(None) => {}
                Ok(Some(events)) => {
                    let events = After::Events(events);
                    done.push(Over::After(std::mem::replace(&mut after, events)));
                }
                // The device is lost, and its memory with it.
                Err(_) => {
                    lose(block);
                    done.push(Over::After(after));
                    continue;
                }
            }
            let After::Events(events) = &after else {
                still.push(Waiting { block, after });
                continue;
            };
            match events.iter().map(Event::reached).collect::<Result<Vec<_>>>() {
                Ok(reached) if reached.iter().all(|reached| *reached) => {
                    match block {
                        Kept::Ours(block) => {
                            self.free.entry((block.kind, block.bytes)).or_default().push(block);
                        }
                        Kept::Theirs(owner) => done.push(Over::Owner(owner)),
                    }
                    done.push(Over::After(after));
                }
                Ok(_) => still.push(Waiting { block, after }),
                Err(_) => {
                    lose(block);
                    done.push(Over::After(after));
                }
            }
        }
        self.waiting = still;
        done
    }
}

impl After {
    /// Records the missing events; `None` if they exist, or cannot be recorded at present.
    fn events(&self, gpu: &'static Gpu) -> Result<Option<Vec<Event>>> {
        match self {
            Self::Streams(streams) => {
                let events = streams.iter().map(|stream| Event::recorded(gpu, stream.raw()));
                events.collect::<Result<_>>().map(Some)
            }
            Self::Device(_) => Ok(Event::of_all(gpu)?.map(|event| vec![event])),
            Self::Events(_) => Ok(None),
        }
    }
}

/// Leaks a block, since the end of its uses can no longer be known.
fn lose(block: Kept) {
    std::mem::forget(block);
}
