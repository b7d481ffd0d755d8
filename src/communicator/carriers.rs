//! The streams that carry a communicator's work.

use std::sync::{Arc, Weak};

use super::Health;
use crate::error::Error;
use crate::lock::Mutex;

/// A stream, for a communicator that is about to end.
pub(crate) trait Carrier: Send + Sync {
    /// What it has not done yet may be taken away. Unless `asks`, that is all that nobody saw to be over.
    fn is_cut(&self, by: &Health, why: &Error, asks: bool);
}

#[derive(Default)]
pub(super) struct Carriers(Mutex<Known>);

#[derive(Default)]
struct Known {
    streams: Vec<Weak<dyn Carrier>>,
    /// How many there were when those that are gone were last forgotten.
    kept: usize,
}

/// How many more there may be before those that are gone are looked for.
const FEW: usize = 16;

impl Carriers {
    /// Each is added once.
    pub(super) fn add(&self, stream: Weak<dyn Carrier>) {
        let mut known = self.0.lock();
        let Known { streams, kept } = &mut *known;
        // Each look is paid by as many streams that came since the one before.
        if streams.len() >= 2 * *kept + FEW {
            streams.retain(|known| known.strong_count() > 0);
            *kept = streams.len();
        }
        streams.push(stream);
    }

    pub(super) fn are_cut(&self, by: &Health, why: &Error, asks: bool) {
        let streams = self.0.lock().streams.clone();
        let streams: Vec<Arc<dyn Carrier>> = streams.iter().filter_map(Weak::upgrade).collect();
        streams.iter().for_each(|stream| stream.is_cut(by, why, asks));
    }
}
