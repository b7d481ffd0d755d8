//! Which communicators used a stream: whom to ask when a wait on it passes its deadline.

use std::sync::{Mutex, PoisonError, Weak};

use super::family::Family;

#[derive(Default)]
pub(crate) struct Traffic(Mutex<Vec<Note>>);

struct Note {
    /// The health's id.
    health: u64,
    family: Weak<Family>,
}

impl Traffic {
    pub(super) fn note(&self, health: u64, family: Weak<Family>) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.retain(|note| note.family.strong_count() > 0);
        if notes.iter().all(|note| note.health != health) {
            notes.push(Note { health, family });
        }
    }

    /// The communicator to blame, and what its ranks called: one whose ranks are not equally far, if
    /// there is one.
    pub(crate) fn blame(&self) -> Option<(u64, String)> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = || notes.iter().filter_map(|note| Some((note.health, note.family.upgrade()?)));
        let found = alive().find(|(_, family)| family.is_uneven()).or_else(|| alive().next());
        drop(notes);
        found.map(|(health, family)| (health, family.report()))
    }
}
