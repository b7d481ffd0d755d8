//! Gathers some of a communicator's ranks, without a call of the others.
//!
//! Exchanges are counted over all ranks, so they cannot serve a part of them. Members find each
//! other by a key that each of them computes from the list of members.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use blake2::{Blake2s256, Digest as _};

use super::Patience;
use super::net::sized;
use crate::backend::{Listener, Wire};
use crate::error::{Departed, Error, Ranks, reported};
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
    let mut hash = Blake2s256::new();
    members.iter().for_each(|member| hash.update(member.to_le_bytes()));
    hash.update(count.to_le_bytes());
    let hash = hash.finalize();
    let (seq, color) = (u64::from_le_bytes(sized(&hash[..8])), sized(&hash[8..12]));
    (seq >> 2 | GATHERED, u32::from_le_bytes(color))
}

/// What a member learns of the others.
enum News {
    Here(u32),
    Lost(u32, String),
    Failed(Error),
}

/// Passes the news on to the member that waits.
struct Reporter(Sender<News>);

/// Tells the other members that this rank has come, and waits for them.
pub(super) fn wait(
    wire: &Arc<dyn Wire>,
    own: u32,
    members: &[u32],
    patience: &Patience<'_>,
) -> Result<()> {
    let Patience { health, limit, operation, site, .. } = *patience;
    let _span = trace::wait(Some(health), operation, site);
    let (reporter, news) = channel();
    let reporter: Arc<dyn Listener> = Arc::new(Reporter(reporter));
    wire.listen(Arc::downgrade(&reporter));
    let mut missing: BTreeSet<u32> = members.iter().copied().filter(|rank| *rank != own).collect();
    missing.iter().for_each(|member| wire.tell(Some(Rank(*member)), Vec::new()));
    let started = Instant::now();
    let (mut lost, mut failed) = (Vec::new(), None);
    let mut is_late = false;
    while !missing.is_empty() {
        for news in news.recv_timeout(REST).into_iter().chain(news.try_iter()) {
            match news {
                News::Here(rank) => drop(missing.remove(&rank)),
                News::Lost(rank, why) => lost.push((rank, why)),
                News::Failed(error) => failed = Some(error),
            }
        }
        lost.retain(|(rank, _)| missing.contains(rank));
        if missing.is_empty() {
            break;
        }
        if let Some(error) = failed {
            return Err(reported(error));
        }
        if let Some((_, why)) = lost.first() {
            let ranks = lost.iter().map(|(rank, _)| Rank(*rank)).collect();
            let departed = Departed::all(ranks, why.clone());
            return Err(reported(departed.error(health.name(), operation.to_owned())));
        }
        health.check()?;
        health.watch_who_is_late();
        let waited = started.elapsed();
        // What came while this process was stopped is about to be read.
        if waited >= limit.time && !std::mem::replace(&mut is_late, true) {
            continue;
        }
        if waited >= limit.time {
            let missing: Vec<_> = missing.into_iter().map(Rank).collect();
            let have = if missing.len() == 1 { "has" } else { "have" };
            let report =
                format!("{} {have} not called it with the same ranks left out", Ranks(&missing));
            return Err(reported(patience.timeout(waited, report)));
        }
    }
    Ok(())
}

impl Reporter {
    /// The member may have stopped waiting.
    fn report(&self, news: News) {
        let _ = self.0.send(news);
    }
}

impl Listener for Reporter {
    fn message(&self, from: Rank, _: &[u8]) {
        self.report(News::Here(from.0));
    }

    fn died(&self, rank: Rank, why: &str) {
        self.report(News::Lost(rank.0, why.to_owned()));
    }

    fn failed(&self, error: &Error) {
        self.report(News::Failed(error.clone()));
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
