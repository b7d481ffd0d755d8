//! The streams that carry a communicator's work.

use std::sync::{Arc, Weak};

use super::Health;
use crate::error::Error;
use crate::lock::Mutex;

/// A stream, as seen by a communicator that is about to end.
pub(crate) trait Carrier: Send + Sync {
    /// Marks unfinished work as possibly lost. With `asks`, the device is queried for what has
    /// finished; otherwise all work that no one saw complete is marked.
    fn is_cut(&self, by: &Health, why: &Error, asks: bool);
}

#[derive(Default)]
pub(crate) struct Carriers(Mutex<Known>);

#[derive(Default)]
struct Known {
    streams: Vec<Weak<dyn Carrier>>,
    /// Length of the list after dead streams were last removed.
    kept: usize,
}

/// How many streams may be added, beyond doubling, before dead ones are removed.
const FEW: usize = 16;

impl Carriers {
    /// Adds a stream. The caller adds each stream once.
    pub(crate) fn add(&self, stream: Weak<dyn Carrier>) {
        let mut known = self.0.lock();
        let Known { streams, kept } = &mut *known;
        // Amortized: the list has at least doubled since the last scan.
        if streams.len() >= 2 * *kept + FEW {
            streams.retain(|known| known.strong_count() > 0);
            *kept = streams.len();
        }
        streams.push(stream);
    }

    pub(crate) fn are_cut(&self, by: &Health, why: &Error, asks: bool) {
        let streams = self.0.lock().streams.clone();
        let streams: Vec<Arc<dyn Carrier>> = streams.iter().filter_map(Weak::upgrade).collect();
        streams.iter().for_each(|stream| stream.is_cut(by, why, asks));
    }
}
