//! The ranks' latest calls, for reports of hangs.

use std::fmt;

use super::Call;
use super::report::{Ranks, grouped};
use crate::Rank;

/// One rank's calls.
pub(crate) struct Called {
    pub(crate) rank: Rank,
    /// The number of collectives, including refused ones.
    pub(crate) collectives: u64,
    /// Its latest calls of every kind, in order; `None` for a refused one.
    pub(crate) last: Vec<Option<Call>>,
}

impl Called {
    /// How many calls of each rank a report includes.
    pub(crate) const LAST: usize = 8;

    fn is_as(&self, other: &Self) -> bool {
        let same = |(a, b): (&Option<Call>, &Option<Call>)| is_again(a, b);
        self.collectives == other.collectives
            && self.last.len() == other.last.len()
            && self.last.iter().zip(&other.last).all(same)
    }
}

/// Whether two calls come from the same line with the same arguments.
fn is_again(a: &Option<Call>, b: &Option<Call>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.matches(b) && a.peer == b.peer && a.site == b.site,
        (None, None) => true,
        _ => false,
    }
}

/// Writes the ranks' calls, one per line, grouping ranks with the same calls.
pub(crate) struct CallsByRanks<'a>(pub(crate) &'a [Called]);

impl fmt::Display for CallsByRanks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.0.iter().map(|called| (called.rank, called));
        for (called, ranks) in grouped(said, Called::is_as) {
            let (ranks, n) = (Ranks(&ranks), called.collectives);
            if called.last.is_empty() {
                write!(f, "\n  {ranks}: none")?;
                continue;
            }
            let s = if n == 1 { "" } else { "s" };
            write!(f, "\n  {ranks}, {n} collective{s} so far:")?;
            for again in called.last.chunk_by(is_again) {
                match &again[0] {
                    Some(call) => write!(f, "\n    {call}")?,
                    None => f.write_str("\n    a call that it refused")?,
                }
                if again.len() > 1 {
                    write!(f, ", {} times", again.len())?;
                }
            }
        }
        Ok(())
    }
}
