//! The checks of `typed-nccl doctor`, on plain data: what goes wrong with NCCL on clusters, each
//! with what mends it.
//!
//! [`Machine::here`] reads a machine; [`check`] judges one, and so can judge a made-up one.

mod checks;
mod finding;
mod machine;
mod merge;

pub use finding::{Finding, Level, json, text};
pub use machine::{Gpu, Interface, Library, Machine};
pub use merge::{merge, page};

/// Everything that was checked, in the order in which a job needs it.
pub fn check(machine: &Machine) -> Vec<Finding> {
    let all = [
        checks::gpus::check,
        checks::libraries::check,
        checks::limits::check,
        checks::network::check,
        checks::variables::check,
        checks::launchers::check,
    ];
    all.iter().flat_map(|check| check(machine)).collect()
}
