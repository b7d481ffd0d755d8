//! NCCL's ids of one communicator.
//!
//! Ranks connect to an id. With several ids (`ncclCommInitRankScalable`, 2.23) each serves a block
//! of ranks, which spreads the load of thousands of ranks. Rank 0 decides how many there are, and
//! the first rank of each block makes that block's id.

use std::collections::BTreeMap;
use std::ops::Range;

use nccl_sys::ncclUniqueId;

use super::super::api::Nccl;
use crate::lock::Mutex;

/// How many ranks one id serves, unless the program configures the number of ids.
const BLOCK: usize = 128;

/// How many ids a communicator has.
pub(super) fn count(nccl: &Nccl, size: usize, asked: Option<u32>) -> usize {
    if nccl.api.ncclCommInitRankScalable().is_err() {
        return 1;
    }
    let wanted = asked.map_or_else(|| size.div_ceil(BLOCK), |asked| asked as usize);
    wanted.clamp(1, size.max(1))
}

/// The ranks that an id serves. As in NCCL, the first blocks are longer by one.
fn block(number: usize, count: usize, size: usize) -> Range<usize> {
    let (each, longer) = (size / count, size % count);
    let first = |number: usize| number * each + number.min(longer);
    first(number)..first(number + 1)
}

/// The ids known so far.
#[derive(Default)]
pub(super) struct Ids(Mutex<State>);

#[derive(Default)]
struct State {
    count: Option<usize>,
    /// By the rank that made it.
    made: BTreeMap<usize, ncclUniqueId>,
}

impl Ids {
    /// Sets the number of ids, once.
    pub(super) fn are(&self, count: usize) {
        self.0.lock().count.get_or_insert(count);
    }

    /// Records the id that a rank has made.
    pub(super) fn know(&self, by: usize, id: ncclUniqueId) {
        self.0.lock().made.entry(by).or_insert(id);
    }

    /// Whether a rank has yet to make an id.
    pub(super) fn wants(&self, rank: usize, size: usize) -> bool {
        let state = self.0.lock();
        let Some(count) = state.count.filter(|_| !state.made.contains_key(&rank)) else {
            return false;
        };
        (0..count).any(|number| block(number, count, size).start == rank)
    }

    /// What a rank sends to the others: the id it has made, and the number of ids.
    pub(super) fn by(&self, rank: usize) -> Option<(ncclUniqueId, usize)> {
        let state = self.0.lock();
        state.made.get(&rank).copied().zip(state.count)
    }

    /// All ids in order, or the ranks whose ids are missing.
    pub(super) fn all(&self, size: usize) -> Result<Vec<ncclUniqueId>, Vec<usize>> {
        let state = self.0.lock();
        let Some(count) = state.count else { return Err(vec![0]) };
        let makers = (0..count).map(|number| block(number, count, size).start);
        let missing = makers.clone().filter(|maker| !state.made.contains_key(maker));
        let missing: Vec<usize> = missing.collect();
        match missing.is_empty() {
            true => Ok(makers.filter_map(|maker| state.made.get(&maker).copied()).collect()),
            false => Err(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ids, block};
    use nccl_sys::ncclUniqueId;

    /// Like `rankHasRoot` in NCCL's documentation.
    fn has_root(rank: usize, size: usize, count: usize) -> bool {
        let (longer, each) = (size % count, size / count);
        let limit = longer * (each + 1);
        match rank < limit {
            true => rank.is_multiple_of(each + 1),
            false => (rank - limit).is_multiple_of(each),
        }
    }

    #[test]
    fn blocks_are_those_of_nccl() {
        for size in 1..40 {
            for count in 1..=size {
                let firsts = (0..count).map(|number| block(number, count, size).start);
                let of_nccl = (0..size).filter(|rank| has_root(*rank, size, count));
                assert!(firsts.eq(of_nccl), "{count} ids, {size} ranks");
                assert_eq!(block(count - 1, count, size).end, size);
            }
        }
    }

    #[test]
    fn ids_stand_in_the_order_of_their_blocks() {
        let (ids, id) = (Ids::default(), |byte| ncclUniqueId::from_bytes([byte; 128]));
        assert_eq!(ids.all(7).err(), Some(vec![0]));
        // Ids may arrive before their number.
        ids.know(5, id(5));
        ids.are(3);
        assert_eq!(ids.all(7).err(), Some(vec![0, 3]));
        let wanted = (0..7).filter(|rank| ids.wants(*rank, 7));
        assert_eq!(wanted.collect::<Vec<_>>(), [0, 3]);
        ids.know(3, id(3));
        ids.know(0, id(0));
        let all = ids.all(7).expect("all are there");
        assert_eq!(all.iter().map(|id| id.to_bytes()[0]).collect::<Vec<_>>(), [0, 3, 5]);
    }
}
