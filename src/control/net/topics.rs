//! Topics that other ranks name. Ours are few; what a peer makes up is bounded too.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::control::{FINISH, Topic};
use crate::lock::Mutex;

/// How many are kept apart: they stay for ever.
const MOST: usize = 1 << 10;

/// How many bytes of one are kept.
const LONGEST: usize = 1 << 7;

/// The topic of this name.
pub(super) fn known(name: &str) -> Topic {
    static KNOWN: LazyLock<Mutex<HashSet<Topic>>> = LazyLock::new(|| Mutex::new([FINISH].into()));
    let name = &name[..name.floor_char_boundary(name.len().min(LONGEST))];
    let mut known = KNOWN.lock();
    match known.get(name) {
        Some(topic) => topic,
        None if known.len() >= MOST => "something else",
        None => {
            let topic = &*Box::leak(Box::<str>::from(name));
            known.insert(topic);
            topic
        }
    }
}
