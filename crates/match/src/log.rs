//! Logs that forget, compared as they grow.

use std::ops::Range;

/// What one rank called in a channel, as far as it is remembered.
pub trait Log {
    /// What is known of a call.
    type Call;

    /// The numbers of the calls that are remembered: the end says how many were made.
    fn known(&self) -> Range<u64>;

    /// A call, if it is remembered and was not refused.
    fn call(&self, number: u64) -> Option<Self::Call>;
}

/// Nothing was called.
impl<L: Log> Log for Option<&L> {
    type Call = L::Call;

    fn known(&self) -> Range<u64> {
        self.map_or(0..0, L::known)
    }

    fn call(&self, number: u64) -> Option<L::Call> {
        self.and_then(|log| log.call(number))
    }
}

/// The calls of one log whose numbers the other has not come to.
pub fn unanswered<A: Log, B: Log>(log: &A, other: &B) -> impl Iterator<Item = (u64, A::Call)> {
    let known = log.known();
    let numbers = known.start.max(other.known().end)..known.end;
    numbers.filter_map(|number| Some((number, log.call(number)?)))
}

/// How far two logs were compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared(u64);

impl Compared {
    /// The first difference among the calls that both have made since the last time that there was
    /// none. Calls that one of the two refused or forgot are passed over.
    pub fn next<A: Log, B: Log, D>(
        &mut self,
        one: &A,
        other: &B,
        mut differ: impl FnMut(u64, A::Call, B::Call) -> Option<D>,
    ) -> Option<D> {
        let (ours, theirs) = (one.known(), other.known());
        let until = ours.end.min(theirs.end);
        for number in self.0.max(ours.start).max(theirs.start)..until {
            if let (Some(one), Some(other)) = (one.call(number), other.call(number))
                && let Some(differs) = differ(number, one, other)
            {
                return Some(differs);
            }
        }
        self.0 = until;
        None
    }
}
