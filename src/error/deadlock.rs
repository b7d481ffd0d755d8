//! Waits that can never end.

use std::fmt;

use thiserror::Error;

use crate::Rank;

/// Ranks wait for each other, or for a call that no thread is left to make.
///
/// ```
/// use typed_nccl::{Error, Host, spmd};
///
/// spmd::<Host>(2, |place| {
///     let comm = place.init()?;
///     let (x, mut y) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
///     comm.recv(&mut y, comm.ring(-1))?; // each waits for the other's send,
///     comm.send(&x, comm.ring(1))?; // which the stream reaches only then
///     let Err(Error::Deadlock(deadlock)) = y.to_vec() else { panic!("they wait for each other") };
///     assert!(deadlock.circle && deadlock.ranks.len() == 2 && deadlock.help.contains("group"));
///     comm.abort();
///     Ok(())
/// })
/// .expect("no rank hangs");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Deadlock {
    /// The waiting ranks and those that they wait for.
    pub ranks: Vec<Rank>,
    /// Whether they wait for each other. If not, every thread of the process waits, so none of them
    /// can make the missing call.
    pub circle: bool,
    /// Which rank waits for which, and at which line, step by step.
    pub story: Vec<String>,
    /// The remedy.
    pub help: &'static str,
}

impl Deadlock {
    /// The first line: which ranks wait.
    fn title(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.ranks[..], self.circle) {
            ([one], true) => write!(f, "rank {one} waits for itself"),
            ([a, b], true) => write!(f, "rank {a} and rank {b} wait for each other"),
            ([a, b, c], true) => write!(f, "ranks {a}, {b} and {c} wait in a circle"),
            (all, true) => write!(f, "{} ranks wait for one another in a circle", all.len()),
            (_, false) => f.write_str("every thread waits, and none is left to make the next call"),
        }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title(f)?;
        for line in &self.story {
            write!(f, "\n  {line}")?;
        }
        write!(f, "\nhelp: {}", self.help)
    }
}
