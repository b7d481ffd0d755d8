//! Signals: raised by one rank, consumed in order by waits of another.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// The signals of one sender, receiver and slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    raised: u64,
    consumed: u64,
}

impl Signals {
    /// Raises one; gives its number.
    #[inline]
    pub const fn raise(&mut self) -> u64 {
        self.raised += 1;
        self.raised - 1
    }

    /// How many were raised and not consumed.
    #[inline]
    pub const fn left(&self) -> u64 {
        self.raised - self.consumed
    }

    /// How many were consumed.
    #[inline]
    pub const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Consumes the next ones; none if there are not enough. Gives their numbers.
    #[inline]
    pub const fn consume(&mut self, count: u64) -> Option<Range<u64>> {
        if self.left() < count {
            return None;
        }
        let first = self.consumed;
        self.consumed += count;
        Some(first..self.consumed)
    }
}

/// One operation of a captured graph on signals of a kind `K`: of one sender, receiver and slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OneSided<K> {
    /// Raises one, once the one before it was consumed.
    Raise(K),
    /// Waits for one.
    Await(K),
}

/// How the signals of a captured graph end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Played<K> {
    /// By rank, the operation that never ends.
    pub stuck: Vec<Option<OneSided<K>>>,
    /// The kinds of which a signal is left over, in no order.
    pub surplus: Vec<K>,
}

/// Plays a captured graph: each rank's operations run one after the other, and a kind has one
/// signal at a time. In whatever order the ranks go on, the end is the same.
pub fn play<K: Copy + Eq + Hash>(ranks: &[Vec<OneSided<K>>]) -> Played<K> {
    let mut kinds: HashMap<K, bool> = HashMap::new();
    let mut next = vec![0; ranks.len()];
    let mut moves = true;
    while std::mem::take(&mut moves) {
        for (at, ops) in next.iter_mut().zip(ranks) {
            while let Some(op) = ops.get(*at) {
                let (kind, raises) = match *op {
                    OneSided::Raise(kind) => (kind, true),
                    OneSided::Await(kind) => (kind, false),
                };
                let is_raised = kinds.entry(kind).or_default();
                if std::mem::replace(is_raised, raises) == raises {
                    break;
                }
                *at += 1;
                moves = true;
            }
        }
    }
    let stuck = next.iter().zip(ranks).map(|(at, ops)| ops.get(*at).copied()).collect();
    let surplus = kinds.into_iter().filter_map(|(kind, is_raised)| is_raised.then_some(kind));
    Played { stuck, surplus: surplus.collect() }
}
