//! The streams that carry a communicator's work.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Health;
use crate::error::Error;

/// A stream, for a communicator that is about to end.
pub(crate) trait Carrier: Send + Sync {
    /// What it has not done yet may be taken away. Unless `asks`, that is all that nobody saw to be over.
    fn is_cut(&self, by: &Health, why: &Error, asks: bool);
}

#[derive(Default)]
pub(super) struct Carriers(Mutex<Vec<Weak<dyn Carrier>>>);

impl Carriers {
    /// Each is added once.
    pub(super) fn add(&self, stream: Weak<dyn Carrier>) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|known| known.strong_count() > 0);
        streams.push(stream);
    }

    pub(super) fn are_cut(&self, by: &Health, why: &Error, asks: bool) {
        let streams = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let streams: Vec<Arc<dyn Carrier>> = streams.iter().filter_map(Weak::upgrade).collect();
        streams.iter().for_each(|stream| stream.is_cut(by, why, asks));
    }
}
