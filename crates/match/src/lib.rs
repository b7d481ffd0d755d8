//! Whether the calls of a communicator's ranks fit each other, decided on plain data.
//!
//! NCCL checks none of the following. The rules are the same for calls as they happen, for calls
//! that were recorded, for captured graphs and for plans, so they stand here once. Nothing here has
//! threads, clocks of the wall or texts: callers attach what they like to a call and make their own
//! messages.
//!
//! 1. **Collectives** of a communicator meet by number: the n-th one of each rank. All of them must
//!    be alike ([`Channel`]).
//! 2. **Messages** from one rank to another meet in order: the k-th send meets the k-th receive,
//!    and the two must be alike ([`channels`] and [`unlike`] for whole histories, [`Channel`] for
//!    calls as they come, [`Compared`] for logs that forget).
//! 3. A call that a rank **refused** keeps its number, and whoever meets it is told why.
//! 4. **Signals** are counted by sender, receiver and slot: a wait consumes the next ones in the
//!    order in which they were raised ([`Signals`]). In a captured graph a slot holds one at a time
//!    ([`play`]).
//! 5. **Order**: a use of memory comes after another if a chain of tasks, messages, collectives and
//!    consumed signals leads from the end of one to the other ([`Clock`]). Two uses without an
//!    order, one of which is a peer's put and one of which writes, are a hazard ([`Uses`]).
//! 6. **Deadlock**: what waits only for what ends, ends. All else waits in a circle, behind one, or
//!    for what nobody does ([`Graph`], [`circle`]).

#![forbid(unsafe_code)]

mod channel;
mod clock;
mod graph;
mod log;
mod meeting;
mod signals;
mod uses;
mod way;

pub use channel::{Channel, channels, unlike};
pub use clock::Clock;
pub use graph::Graph;
pub use log::{Compared, Log, unanswered};
pub use meeting::{Meeting, Met};
pub use signals::{OneSided, Played, Signals, play};
pub use uses::{Use, Uses, When};
pub use way::{Way, circle, way};
