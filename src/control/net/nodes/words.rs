//! What ranks of a simulation tell each other, beside their exchanges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::Rank;
use crate::backend::{Listener, Wire};
use crate::control::Meeting;
use crate::lock::Mutex;

/// About so many ranks tell the others something.
const TELLERS: usize = 16;

const CHANNEL: u64 = 5;

/// One rank's listener.
pub(super) struct Words {
    rank: usize,
    count: usize,
    /// By sender, what has come: the exchange that it precedes, and whether it is for one rank.
    heard: Mutex<BTreeMap<usize, Vec<(u8, bool)>>>,
}

impl Words {
    pub(super) fn of(rank: usize, count: usize) -> Self {
        Self { rank, count, heard: Mutex::new(BTreeMap::new()) }
    }

    pub(super) fn listen(words: &Arc<Self>, meeting: &Meeting) {
        if let Some(wire) = wire(meeting) {
            let listener: Arc<dyn Listener> = words.clone();
            wire.listen(Arc::downgrade(&listener));
        }
    }

    /// Says what precedes an exchange.
    pub(super) fn say(&self, meeting: &Meeting, exchange: u64) {
        let Some(wire) = wire(meeting).filter(|_| self.tellers().any(|it| it == self.rank)) else {
            return;
        };
        let number = u8::try_from(exchange).unwrap_or(u8::MAX);
        wire.tell(Some(Rank::at(self.chosen_by(self.rank, number))), vec![number, 1]);
        wire.tell(None, vec![number, 0]);
    }

    /// Whether everything has come that all were told before an exchange that is complete, unless
    /// its sender may be lost. A word for one rank alone may come later than that if its sender
    /// leaves: what was said to all has another way.
    pub(super) fn check(&self, exchange: u64, lost: &BTreeSet<u32>) -> Result<(), String> {
        let last = u8::try_from(exchange).unwrap_or(u8::MAX);
        let heard = self.heard.lock();
        for teller in self.tellers().filter(|teller| *teller != self.rank) {
            if lost.contains(&Rank::at(teller).0) {
                continue;
            }
            let words = heard.get(&teller).map_or(&[][..], Vec::as_slice);
            let of = |is_for_one: bool| words.iter().filter(move |word| word.1 == is_for_one);
            let found = [of(false), of(true)].map(|words| words.map(|word| word.0).collect());
            let [to_all, to_one]: [Vec<u8>; 2] = found;
            let is_mine = |number: &u8| self.chosen_by(teller, *number) == self.rank;
            let mine: Vec<u8> = (0..last).filter(is_mine).collect();
            let all: Vec<u8> = (0..=last).collect();
            if !to_all.starts_with(&all) || !to_one.starts_with(&mine) {
                let rank = self.rank;
                return Err(format!(
                    "rank {rank} heard {words:?} from rank {teller}, not {all:?} and {mine:?}"
                ));
            }
        }
        Ok(())
    }

    fn tellers(&self) -> impl Iterator<Item = usize> {
        (0..self.count).step_by(self.count.div_ceil(TELLERS))
    }

    /// The rank that gets a teller's word for one rank.
    fn chosen_by(&self, teller: usize, number: u8) -> usize {
        (teller + 1 + usize::from(number) * 7) % self.count
    }
}

impl Listener for Words {
    fn message(&self, from: Rank, message: &[u8]) {
        if let &[number, for_one] = message {
            self.heard.lock().entry(from.index()).or_default().push((number, for_one == 1));
        }
    }

    fn died(&self, _: Rank, _: &str) {}
}

fn wire(meeting: &Meeting) -> Option<Arc<dyn Wire>> {
    Some(meeting.uplink()?.line(CHANNEL))
}
