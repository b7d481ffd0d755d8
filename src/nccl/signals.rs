//! Counts the signals of one communicator that each rank called for and waits for.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::recorder::Word;
use crate::Rank;
use crate::backend::{Slot, Wait};
use crate::error::{Call, Site, Surplus};
use crate::lock::Mutex;

/// By sender, receiver and slot.
#[derive(Default)]
pub(super) struct Signals(Mutex<HashMap<Key, Counts>>);

type Key = (usize, usize, Slot);

#[derive(Clone, Copy, Default)]
struct Counts {
    raised: u64,
    /// Puts and signals that the sender refused, so that they never arrive.
    refused: u64,
    awaited: u64,
    /// The receiver's last wait.
    wait: Option<Call>,
    /// Where the last one was called for.
    last: Option<Site>,
}

/// The signals a rank raised and awaits, as sent to another process.
#[derive(Serialize, Deserialize)]
pub(super) struct SignalReport {
    /// Receiver, slot, how many, how many were refused, and where the last was called for.
    raised: Vec<(u32, Slot, u64, u64, Option<Site>)>,
    /// Sender, slot, how many, and the last wait.
    awaited: Vec<(u32, Slot, u64, Option<Word>)>,
}

impl Counts {
    fn is_short(&self) -> bool {
        self.awaited > self.raised
    }
}

impl Signals {
    /// Records a signal of rank `from`.
    pub(super) fn raised(&self, from: usize, to: Rank, slot: Slot, site: Site) {
        let mut signals = self.0.lock();
        let count = signals.entry((from, to.index(), slot)).or_default();
        count.raised += 1;
        count.last = Some(site);
    }

    /// Signals to rank `to` that were never awaited: in the first slot, and in slots where some
    /// rank awaited any.
    pub(super) fn unawaited(&self, to: usize) -> Vec<Surplus> {
        let signals = self.0.lock();
        let is_used = |slot: Slot| {
            let awaited = |(key, count): (&Key, &Counts)| key.2 == slot && count.awaited > 0;
            slot == Slot::default() || signals.iter().any(awaited)
        };
        let left = |(&(from, receiver, slot), count): (&Key, &Counts)| {
            let left = count.raised.saturating_sub(count.awaited);
            let (from, Slot { context, index, .. }) = (Rank::at(from), slot);
            let last = count.last.filter(|_| receiver == to && left > 0 && is_used(slot))?;
            Some(Surplus { from, context, index, count: left, last })
        };
        let mut found: Vec<Surplus> = signals.iter().filter_map(left).collect();
        found.sort_by_key(|surplus| (surplus.context, surplus.index, surplus.from));
        found
    }

    /// Records a signal that rank `from` refused to raise; returns its number.
    pub(super) fn refused(&self, from: usize, to: Rank, slot: Slot) -> u64 {
        let mut signals = self.0.lock();
        let count = signals.entry((from, to.index(), slot)).or_default();
        let number = count.raised + count.refused;
        count.refused += 1;
        number
    }

    /// Records that rank `to` waits for signals.
    pub(super) fn awaited(&self, to: usize, wait: &Wait) {
        let mut signals = self.0.lock();
        let count = signals.entry((wait.peer.index(), to, wait.slot)).or_default();
        count.awaited += u64::from(wait.count);
        count.wait = Some(wait.call);
    }

    /// Whether `to` waits for signal `number`.
    pub(super) fn awaits(&self, from: usize, to: usize, slot: Slot, number: u64) -> bool {
        self.0.lock().get(&(from, to, slot)).is_some_and(|count| count.awaited > number)
    }

    /// Whether `to` has waited for signals of rank `from`.
    pub(super) fn awaits_any(&self, to: usize, from: usize) -> bool {
        let signals = self.0.lock();
        signals.iter().any(|(key, count)| (key.0, key.1) == (from, to) && count.awaited > 0)
    }

    /// The last wait.
    pub(super) fn wait(&self, from: usize, to: usize, slot: Slot) -> Option<Call> {
        self.0.lock().get(&(from, to, slot))?.wait
    }

    /// A wait of rank `to` for signals of rank `from` of which some were not called for.
    pub(super) fn unraised(&self, from: usize, to: usize) -> Option<Call> {
        let signals = self.0.lock();
        signals.iter().find_map(|(&(sender, receiver, _), count)| {
            let is_it = (sender, receiver) == (from, to) && count.is_short();
            count.wait.filter(|_| is_it)
        })
    }

    /// Whether `to` waits for signals that one of these ranks has not called for.
    pub(super) fn is_owed(&self, to: usize, by: impl Fn(usize) -> bool) -> bool {
        let signals = self.0.lock();
        let mut of = signals.iter().filter(|((from, receiver, _), _)| *receiver == to && by(*from));
        of.any(|(_, count)| count.is_short())
    }

    /// The signals that others wait for and `from` has not called for: receiver, slot and count.
    /// With `all`, those it called for are included, as they may not arrive.
    pub(super) fn owed(&self, from: usize, all: bool) -> Vec<(usize, Slot, u64)> {
        let signals = self.0.lock();
        let of = |(&(sender, to, slot), count): (&Key, &Counts)| {
            let raised = if all { 0 } else { count.raised };
            let owed = count.awaited.saturating_sub(raised);
            // A call outside a graph does not raise a graph's signals.
            (sender == from && owed > 0 && !slot.captured).then_some((to, slot, owed))
        };
        signals.iter().filter_map(of).collect()
    }

    /// The signals a rank raised and awaits, for other processes.
    pub(super) fn tell(&self, own: usize) -> SignalReport {
        let (mut raised, mut awaited) = (Vec::new(), Vec::new());
        for (&(from, to, slot), count) in &*self.0.lock() {
            if from == own {
                raised.push((Rank::at(to).0, slot, count.raised, count.refused, count.last));
            }
            if to == own {
                let wait = count.wait.map(|wait| Word::new(&wait, 0));
                awaited.push((Rank::at(from).0, slot, count.awaited, wait));
            }
        }
        SignalReport { raised, awaited }
    }

    /// Takes over the signals of a rank of another process. Counts only grow, so a late message
    /// does no harm.
    pub(super) fn hear(&self, rank: usize, size: usize, told: &SignalReport) {
        let mut signals = self.0.lock();
        let exists = |rank: u32| (rank as usize) < size;
        for &(to, slot, raised, refused, last) in
            told.raised.iter().filter(|raised| exists(raised.0))
        {
            let count = signals.entry((rank, to as usize, slot)).or_default();
            if (raised, refused) > (count.raised, count.refused) {
                (count.raised, count.refused, count.last) = (raised, refused, last);
            }
        }
        for (from, slot, awaited, wait) in told.awaited.iter().filter(|awaited| exists(awaited.0)) {
            let count = signals.entry((*from as usize, rank, *slot)).or_default();
            if *awaited > count.awaited {
                count.awaited = *awaited;
                count.wait = wait.as_ref().and_then(Word::call);
            }
        }
    }
}
