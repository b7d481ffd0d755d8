//! Streams whose kernels take what another thread may end: a device communicator.
//!
//! Each stream notes its own uses, at a place that it finds again without a lock. The end refuses what comes
//! later, and waits for launches that have begun: then every use is noted.

mod gate;
#[cfg(test)]
mod model;

use std::mem::ManuallyDrop;
use std::sync::atomic::{self, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::core::{Awaited, StreamCore, StreamShared};
use crate::Result;
use crate::backend::Streams;
use gate::{Before, Gate, Way};

/// The streams whose kernels take one thing, until it ends.
pub(crate) struct Takers<B: Streams> {
    id: u64,
    gate: Gate,
    listed: Mutex<Listed<B>>,
}

struct Listed<B: Streams> {
    /// Why it is over.
    over: Option<String>,
    all: Vec<Arc<Taker<B>>>,
}

/// One stream of them.
pub(crate) struct Taker<B: Streams> {
    /// Whose.
    of: u64,
    stream: Arc<StreamShared<B>>,
    way: Way,
}

/// A launch that has begun: what it takes does not end before this is dropped, and this is a use of it.
pub(crate) struct Taking<'s, B: Streams> {
    stream: &'s StreamCore<B>,
    /// Not the stream's for so long; taken when this is dropped.
    taker: ManuallyDrop<Arc<Taker<B>>>,
    before: Before,
}

/// How many streams are kept without asking whether they are past their uses.
const FEW: usize = 8;

/// How often an end looks whether a launch is over.
const PAUSE: Duration = Duration::from_micros(50);

impl<B: Streams> Default for Takers<B> {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            // No other thing ever has the number.
            id: NEXT.fetch_add(1, Relaxed),
            gate: Gate::open(),
            listed: Mutex::new(Listed { over: None, all: Vec::new() }),
        }
    }
}

impl<B: Streams> Takers<B> {
    /// `stream` is about to carry a kernel that takes it. If it is over: why.
    #[inline]
    pub(crate) fn enter<'s>(&self, stream: &'s StreamCore<B>) -> Result<Taking<'s, B>, String> {
        let taker = match stream.taker(self.id) {
            Some(taker) => taker,
            None => self.taker(stream)?,
        };
        match self.gate.enter(&taker.way) {
            Some(before) => Ok(Taking { stream, taker: ManuallyDrop::new(taker), before }),
            None => Err(self.why()),
        }
    }

    /// Where a stream notes its uses that does not know it.
    #[cold]
    fn taker(&self, stream: &StreamCore<B>) -> Result<Arc<Taker<B>>, String> {
        let mut listed = self.lock();
        if let Some(why) = &listed.over {
            return Err(why.clone());
        }
        let known = listed.all.iter().find(|taker| taker.stream.id() == stream.id());
        if let Some(known) = known {
            return Ok(known.clone());
        }
        // What the list alone has no stream notes anything at any more.
        let asks = listed.all.len() > FEW;
        listed.all.retain_mut(|taker| {
            Arc::get_mut(taker).is_none_or(|taker| match asks {
                true => !taker.is_past(),
                false => taker.way.used() > 0,
            })
        });
        let new = Arc::new(Taker { of: self.id, stream: stream.shared(), way: Way::new() });
        listed.all.push(new.clone());
        Ok(new)
    }

    #[cold]
    fn why(&self) -> String {
        self.lock().over.clone().unwrap_or_default()
    }

    /// No stream takes it any more: waits for launches that have begun.
    pub(crate) fn end(&self, why: &str) {
        let mut listed = self.lock();
        listed.over.get_or_insert_with(|| why.to_owned());
        self.gate.close();
        let all = listed.all.clone();
        // What a launch calls may launch another one.
        drop(listed);
        for taker in all {
            while taker.way.is_entered() {
                thread::sleep(PAUSE);
            }
        }
    }

    /// The points after which no kernel has it.
    pub(crate) fn points(&self) -> Result<Vec<Awaited<B>>> {
        let listed = self.lock();
        let uses = listed.all.iter().map(|taker| (&taker.stream, taker.way.used()));
        uses.filter(|(_, used)| *used > 0).map(|(stream, used)| stream.reach(used)).collect()
    }

    /// The streams whose work may still have it.
    #[cfg(feature = "cuda")]
    pub(crate) fn carriers(&self) -> Vec<B::Stream> {
        let listed = self.lock();
        let carriers = listed.all.iter().filter(|taker| !taker.is_past());
        carriers.map(|taker| taker.stream.raw().clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Listed<B>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Streams> Taker<B> {
    /// Whose.
    #[inline]
    pub(super) fn of(&self) -> u64 {
        self.of
    }

    /// Whether all uses are over, as far as it can be told.
    fn is_past(&self) -> bool {
        match self.way.used() {
            0 => true,
            used => self.stream.is_past(used),
        }
    }
}

impl<B: Streams> Drop for Taking<'_, B> {
    // Most launches take nothing: they do without this.
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: it is taken here alone, and this is dropped once.
        let taker = unsafe { ManuallyDrop::take(&mut self.taker) };
        // What is recorded or captured runs when its graph is launched, which is booked.
        let used = if self.stream.is_live() { self.stream.last_seq() } else { 0 };
        taker.way.leave(&self.before, used);
        self.stream.keep_taker(taker);
    }
}
