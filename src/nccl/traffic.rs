//! The communicators that used a stream, one of which is to blame if a wait on it times out.

use std::sync::Weak;

use super::family::Family;
use crate::backend::{Blame, Culprit};
use crate::lock::Mutex;

#[derive(Default)]
pub(crate) struct Traffic(Mutex<Vec<Note>>);

struct Note {
    /// The health's id.
    health: u64,
    family: Weak<Family>,
}

impl Traffic {
    pub(super) fn note(&self, health: u64, family: Weak<Family>) {
        let mut notes = self.0.lock();
        notes.retain(|note| note.family.strong_count() > 0);
        if notes.iter().all(|note| note.health != health) {
            notes.push(Note { health, family });
        }
    }

    /// The communicator to blame: one whose ranks are not equally far, else the only one. With the
    /// ranks' calls.
    pub(crate) fn blame(&self) -> Option<Blame> {
        let notes = self.0.lock();
        let alive = notes.iter().filter_map(|note| Some((note.health, note.family.upgrade()?)));
        let alive: Vec<_> = alive.collect();
        drop(notes);
        let uneven: Vec<_> = alive.iter().filter(|(_, family)| family.is_uneven()).collect();
        let culprit = match (&uneven[..], &alive[..]) {
            ([(only, _)], _) | ([], [(only, _)]) => Culprit::Known(*only),
            _ => Culprit::Unknown,
        };
        let reports: Vec<String> = alive.iter().map(|(_, family)| family.report()).collect();
        (!reports.is_empty()).then(|| Blame { culprit, report: reports.join("\n") })
    }
}
