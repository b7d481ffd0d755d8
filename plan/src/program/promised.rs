//! Whether sizes keep a plan's promises.

use super::{Env, Turns};
use crate::ir::{Each, LoopId, Promise};

/// The values of counters in one turn of loops.
type Turn = Vec<(LoopId, i64)>;

/// Why a promise is not kept.
pub(crate) enum Breach {
    /// It does not hold in this turn of the loops around it.
    In(Turn),
    /// There are more turns than are looked at.
    TooManyTurns,
}

impl Env<'_> {
    /// Whether a promise holds, in at most so many turns of the loops around it.
    pub(crate) fn keeps(&self, promise: &Promise, most: u64) -> bool {
        self.breach(promise, most).is_none()
    }

    /// Why a promise is not kept, if it is not. At most so many turns are looked at.
    pub(crate) fn breach(&self, promise: &Promise, most: u64) -> Option<Breach> {
        let mut left = most;
        self.breach_in(promise, &promise.around, &mut Vec::new(), &mut left)
    }

    fn breach_in(
        &self,
        promise: &Promise,
        around: &[Each],
        turn: &mut Turn,
        left: &mut u64,
    ) -> Option<Breach> {
        let Some((each, inner)) = around.split_first() else {
            let Some(less) = left.checked_sub(1) else { return Some(Breach::TooManyTurns) };
            *left = less;
            let holds = self.holds(&promise.condition) == Ok(true);
            return (!holds).then(|| Breach::In(turn.clone()));
        };
        let Ok(turns) = Turns::of_each(each, self) else { return Some(Breach::In(turn.clone())) };
        if turns.most() > *left {
            return Some(Breach::TooManyTurns);
        }
        let index = each.counter.index();
        let mut counters = self.counters.to_vec();
        counters.resize(counters.len().max(index + 1), None);
        turns.iter().find_map(|value| {
            // Those of a loop around others count too: these may be empty.
            *left = left.saturating_sub(u64::from(!inner.is_empty()));
            counters[index] = Some(value);
            turn.push((each.counter, value));
            let counters = &counters;
            let found = Env { counters, ..*self }.breach_in(promise, inner, turn, left);
            turn.pop();
            found
        })
    }
}
