//! Gathers some of a communicator's ranks, without a call of the others.
//!
//! Exchanges are counted over all ranks, so they cannot serve a part of them. Members find each
//! other by a key that each of them computes from the list of members.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::Patience;
use crate::backend::{Listener, Wire};
use crate::error::{Departed, Error, Ranks, Timeout, reported};
use crate::lock::Mutex;
use crate::{Rank, Result, trace};

/// The interval at which a wait checks health and deadline.
const REST: Duration = Duration::from_millis(5);

/// Marks a key that is not the number of an exchange, by its two highest bits. Numbers of exchanges
/// have none of them, and the survivors' has both.
const GATHERED: u64 = 0b10 << 62;

/// Whether a child's key comes from a gathering, not from an exchange.
pub(super) fn is_gathered(seq: u64) -> bool {
    seq >> 62 == GATHERED >> 62
}

/// The key of the `count`th gathering of these members: an exchange's number and a colour.
pub(super) fn key(members: &[u32], count: u64) -> (u64, u32) {
    let mut hash = Sha256::new();
    members.iter().for_each(|member| hash.update(member.to_le_bytes()));
    hash.update(count.to_le_bytes());
    let hash = hash.finalize();
    let (mut seq, mut color) = ([0; 8], [0; 4]);
    seq.copy_from_slice(&hash[..8]);
    color.copy_from_slice(&hash[8..12]);
    (u64::from_le_bytes(seq) >> 2 | GATHERED, u32::from_le_bytes(color))
}

/// The members that have come, as far as this rank knows.
pub(super) struct Gathering {
    arrived: Mutex<Arrived>,
    changed: Condvar,
}

#[derive(Default)]
struct Arrived {
    here: BTreeSet<u32>,
    lost: Vec<(u32, String)>,
    failed: Option<Error>,
}

impl Gathering {
    /// Tells the other members that this rank has come, and waits for them.
    pub(super) fn wait(
        wire: &Arc<dyn Wire>,
        own: u32,
        members: &[u32],
        patience: &Patience<'_>,
    ) -> Result<()> {
        let Patience { health, limit, operation, site, .. } = *patience;
        let _span = trace::wait(Some(health), operation, site);
        let gathering = Arc::new(Self { arrived: Mutex::default(), changed: Condvar::new() });
        let listener: Arc<dyn Listener> = gathering.clone();
        wire.listen(Arc::downgrade(&listener));
        let others = || members.iter().copied().filter(|member| *member != own);
        others().for_each(|member| wire.tell(Some(Rank(member)), Vec::new()));
        let started = Instant::now();
        loop {
            let arrived = gathering.arrived.lock();
            let missing: Vec<u32> =
                others().filter(|member| !arrived.here.contains(member)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if let Some(error) = &arrived.failed {
                return Err(reported(error.clone()));
            }
            let lost = arrived.lost.iter().filter(|(rank, _)| missing.contains(rank));
            let lost: Vec<_> = lost.cloned().collect();
            if let Some((_, why)) = lost.first() {
                let ranks = lost.iter().map(|(rank, _)| Rank(*rank)).collect();
                let departed = Departed::all(ranks, why.clone());
                return Err(reported(departed.error(health.name(), operation.to_owned())));
            }
            // A spurious or early wake-up is fine: the loop checks again.
            let _ = gathering.changed.wait_timeout(arrived, REST);
            health.check()?;
            health.watch_who_is_late();
            let waited = started.elapsed();
            if waited >= limit.time {
                let missing: Vec<_> = missing.into_iter().map(Rank).collect();
                let have = if missing.len() == 1 { "has" } else { "have" };
                let report = format!(
                    "{} {have} not called it with the same ranks left out",
                    Ranks(&missing)
                );
                let deadline = limit.of;
                let timeout = Timeout { operation, site, waited, deadline, report };
                return Err(reported(timeout.into()));
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Arrived)) {
        change(&mut self.arrived.lock());
        self.changed.notify_all();
    }
}

impl Listener for Gathering {
    fn message(&self, from: Rank, _: &[u8]) {
        self.change(|arrived| {
            arrived.here.insert(from.0);
        });
    }

    fn died(&self, rank: Rank, why: &str) {
        self.change(|arrived| arrived.lost.push((rank.0, why.to_owned())));
    }

    fn failed(&self, error: &Error) {
        self.change(|arrived| arrived.failed = Some(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::{is_gathered, key};
    use crate::control::SURVIVORS;

    #[test]
    fn keys_are_of_the_members_and_of_no_exchange() {
        assert_eq!(key(&[0, 2], 0), key(&[0, 2], 0));
        let keys = [key(&[0, 2], 0), key(&[0, 2], 1), key(&[0, 1, 2], 0), key(&[2], 0)];
        for (at, (seq, _)) in keys.iter().enumerate() {
            assert!(is_gathered(*seq) && keys[..at].iter().all(|(other, _)| other != seq));
        }
        assert!(!is_gathered(SURVIVORS) && !is_gathered(0) && !is_gathered(1 << 40));
    }
}
