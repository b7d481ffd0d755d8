//! Streams whose kernels use an object that another thread may end: a device communicator.
//!
//! Each stream records its own uses in a place that it finds again without a lock. Ending the
//! object refuses later launches and waits for those that have begun; every use is recorded then.

mod gate;
#[cfg(all(test, feature = "models"))]
mod model;

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::core::{Awaited, StreamCore, StreamShared};
use crate::Result;
use crate::backend::Streams;
use crate::lock::Mutex;
use gate::{Before, Gate, Way};

/// The streams whose kernels use one object, until it ends.
pub(crate) struct Takers<B: Streams> {
    id: u64,
    gate: Gate,
    listed: Mutex<Listed<B>>,
}

struct Listed<B: Streams> {
    /// Why the object has ended.
    over: Option<String>,
    all: Vec<Arc<Taker<B>>>,
}

/// One stream's record of its uses.
pub(crate) struct Taker<B: Streams> {
    /// The object's id.
    of: u64,
    stream: Arc<StreamShared<B>>,
    way: Way,
}

/// A launch that has begun and counts as a use: the object does not end before this is dropped.
pub(crate) struct Taking<'s, B: Streams> {
    stream: &'s StreamCore<B>,
    /// Out of the stream's list meanwhile; taken when this is dropped.
    taker: ManuallyDrop<Arc<Taker<B>>>,
    before: Before,
}

/// How many streams are kept without asking whether their uses are over.
const FEW: usize = 8;

/// How often an end checks whether a launch is over.
const PAUSE: Duration = Duration::from_micros(50);

impl<B: Streams> Default for Takers<B> {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            // No other object ever gets this number.
            id: NEXT.fetch_add(1, Relaxed),
            gate: Gate::open(),
            listed: Mutex::new(Listed { over: None, all: Vec::new() }),
        }
    }
}

impl<B: Streams> Takers<B> {
    /// Called before `stream` carries a kernel that uses the object. Fails with the reason if it
    /// has ended.
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

    /// The record of a stream that does not have it at hand.
    #[cold]
    fn taker(&self, stream: &StreamCore<B>) -> Result<Arc<Taker<B>>, String> {
        let mut listed = self.listed.lock();
        if let Some(why) = &listed.over {
            return Err(why.clone());
        }
        let known = listed.all.iter().find(|taker| taker.stream.id() == stream.id());
        if let Some(known) = known {
            return Ok(known.clone());
        }
        // No stream writes a record that only the list holds.
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
        self.listed.lock().over.clone().unwrap_or_default()
    }

    /// Ends the object: refuses later launches, waits for those that have begun.
    pub(crate) fn end(&self, why: &str) {
        let mut listed = self.listed.lock();
        listed.over.get_or_insert_with(|| why.to_owned());
        self.gate.close();
        let all = listed.all.clone();
        // A launch may itself call another one.
        drop(listed);
        for taker in all {
            while taker.way.is_entered() {
                thread::sleep(PAUSE);
            }
        }
    }

    /// The points after which no kernel uses it.
    pub(crate) fn points(&self) -> Result<Vec<Awaited<B>>> {
        let listed = self.listed.lock();
        let uses = listed.all.iter().map(|taker| (&taker.stream, taker.way.used()));
        uses.filter(|(_, used)| *used > 0).map(|(stream, used)| stream.reach(used)).collect()
    }

    /// The streams whose work may still use it.
    #[cfg(feature = "cuda")]
    pub(crate) fn carriers(&self) -> Vec<B::Stream> {
        let listed = self.listed.lock();
        let carriers = listed.all.iter().filter(|taker| !taker.is_past());
        carriers.map(|taker| taker.stream.raw().clone()).collect()
    }
}

impl<B: Streams> Taker<B> {
    /// The object's id.
    #[inline]
    pub(super) fn of(&self) -> u64 {
        self.of
    }

    /// Whether all uses are known to be over.
    fn is_past(&self) -> bool {
        match self.way.used() {
            0 => true,
            used => self.stream.is_past(used),
        }
    }
}

impl<B: Streams> Drop for Taking<'_, B> {
    // Most launches use no such object and skip this.
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: it is taken only here, and this is dropped once.
        let taker = unsafe { ManuallyDrop::take(&mut self.taker) };
        // Recorded or captured work runs when its graph is launched, and the launch is recorded.
        let used = if self.stream.is_live() { self.stream.last_seq() } else { 0 };
        taker.way.leave(&self.before, used);
        self.stream.keep_taker(taker);
    }
}
