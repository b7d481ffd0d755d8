//! Interns topics that peers name. There are few in practice, but a peer can make up any number.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::control::{FINISH, Topic};
use crate::lock::Mutex;

/// The most topics, since interned ones are never freed.
const MOST: usize = 1 << 10;

/// The longest topic, in bytes.
const LONGEST: usize = 1 << 7;

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
