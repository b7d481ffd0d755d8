//! Depth and size of recursive data. Both are computed during construction and deserialization, so
//! that no recursive traversal and no `Drop` ever meets excessive depth.

use std::cell::Cell;
use std::thread::LocalKey;

use serde::de::{Deserialize, Deserializer, Error};

use super::MOST_PARTS;

/// The maximal nesting depth of steps, and also of numbers and of conditions.
pub const MOST_NESTING: usize = 64;

/// The most parts of one number, one condition or one peer.
pub const MOST_OF_ONE: usize = 4_096;

/// The depth of something, from 1, and the number of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) depth: usize,
    pub(crate) parts: usize,
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    Depth,
    Parts,
}

impl Shape {
    /// The shape of a leaf.
    pub(crate) const ONE: Self = Self { depth: 1, parts: 1 };

    /// The shape of one thing around these.
    pub(crate) fn around(inner: impl IntoIterator<Item = Self>) -> Self {
        inner.into_iter().fold(Self::ONE, |all, one| Self {
            depth: all.depth.max(one.depth.saturating_add(1)),
            parts: all.parts.saturating_add(one.parts),
        })
    }

    /// The same with more parts.
    pub(crate) fn and(self, parts: usize) -> Self {
        Self { parts: self.parts.saturating_add(parts), ..self }
    }

    pub(crate) fn fits(self) -> Result<Self, Limit> {
        match self {
            Self { depth, .. } if depth > MOST_NESTING => Err(Limit::Depth),
            Self { parts, .. } if parts > MOST_OF_ONE => Err(Limit::Parts),
            _ => Ok(self),
        }
    }
}

pub(crate) const DEEP_NUMBER: &str = "a number is nested more than 64 deep";
pub(crate) const LARGE_NUMBER: &str = "a number has more than 4096 parts";
pub(crate) const DEEP_CONDITION: &str = "a condition is nested more than 64 deep";
pub(crate) const LARGE_CONDITION: &str = "a condition has more than 4096 parts";
pub(crate) const DEEP_PEER: &str = "a peer has cases more than 64 deep";
pub(crate) const LARGE_PEER: &str = "a peer has more than 4096 parts";
pub(crate) const DEEP_STEP: &str = "this step is inside more than 63 others";

pub(crate) const LARGE_PLAN: &str =
    "the plan's numbers, conditions and regions have more than 1000000 parts";

// The messages contain these numbers.
const _: () = assert!(MOST_NESTING == 64 && MOST_OF_ONE == 4_096 && MOST_PARTS == 1_000_000);

/// The remedy for each message.
pub(crate) fn help(title: &str) -> Option<&'static str> {
    Some(match title {
        DEEP_NUMBER | LARGE_NUMBER => "split it, or balance its sums",
        DEEP_CONDITION => "use one `all` or `any` with several entries",
        LARGE_CONDITION => "split it, or compare fewer numbers",
        DEEP_PEER | LARGE_PEER => "name the rank by a number",
        LARGE_PLAN => "use loops, or split the plan",
        DEEP_STEP => "nest loops, groups and guards less deep",
        _ => return None,
    })
}

/// One more level of this thread's reading depth in a kind of data, until this is dropped.
/// Deserializers keep no state per type.
struct Level(&'static LocalKey<Cell<usize>>);

impl Level {
    fn enter<E: Error>(depth: &'static LocalKey<Cell<usize>>, title: &str) -> Result<Self, E> {
        // The outermost one is a level too, and is not counted.
        if depth.get() + 1 >= MOST_NESTING {
            return Err(E::custom(title));
        }
        depth.set(depth.get() + 1);
        Ok(Self(depth))
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

macro_rules! nested {
    ($($(#[$doc:meta])+ $read:ident = $title:ident;)+) => {$(
        $(#[$doc])+
        pub(super) fn $read<'de, T, D>(from: D) -> Result<T, D::Error>
        where
            T: Deserialize<'de>,
            D: Deserializer<'de>,
        {
            thread_local! {
                static DEPTH: Cell<usize> = const { Cell::new(0) };
            }
            let _level = Level::enter(&DEPTH, $title)?;
            T::deserialize(from)
        }
    )+};
}

nested! {
    /// Reads a number inside a number.
    number = DEEP_NUMBER;
    /// Reads one or more conditions inside a condition.
    condition = DEEP_CONDITION;
    /// Reads the peers of a peer by cases.
    cases = DEEP_PEER;
    /// Reads the steps inside a step.
    body = DEEP_STEP;
}
