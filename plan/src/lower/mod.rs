//! From a checked plan to the calls that every rank makes.

mod schedule;

pub use schedule::{Call, Event, Operation, Part, RankSchedule, Reason, Schedule, WarmUp, Work};
