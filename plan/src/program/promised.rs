//! Whether sizes keep a plan's promises.

use super::{Env, Turns};
use crate::ir::{Each, LoopId, Promise};

/// The values of counters in one turn of loops.
type Turn = Vec<(LoopId, i64)>;

impl Env<'_> {
    /// Whether a promise holds, in at most so many turns of the loops around it.
    pub(crate) fn keeps(&self, promise: &Promise, most: u64) -> bool {
        self.breach(promise, most).is_none()
    }

    /// The first turn in which a promise does not hold. One beyond `most` counts as such.
    pub(crate) fn breach(&self, promise: &Promise, most: u64) -> Option<Turn> {
        let mut left = most;
        self.breach_in(promise, &promise.around, &mut Vec::new(), &mut left)
    }

    fn breach_in(
        &self,
        promise: &Promise,
        around: &[Each],
        turn: &mut Turn,
        left: &mut u64,
    ) -> Option<Turn> {
        let Some((each, inner)) = around.split_first() else {
            let fits = left.checked_sub(1).map(|less| *left = less).is_some();
            let holds = fits && self.holds(&promise.condition) == Ok(true);
            return (!holds).then(|| turn.clone());
        };
        let Ok(turns) = Turns::of_each(each, self) else { return Some(turn.clone()) };
        let index = each.counter.index();
        let mut counters = self.counters.to_vec();
        counters.resize(counters.len().max(index + 1), None);
        turns.iter().find_map(|value| {
            counters[index] = Some(value);
            turn.push((each.counter, value));
            let counters = &counters;
            let found = Env { counters, ..*self }.breach_in(promise, inner, turn, left);
            turn.pop();
            found
        })
    }
}
