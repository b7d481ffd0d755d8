//! The devices of the machine, and their identities.

use std::env;

/// The machine's number of devices. If it is set, work takes time.
const DEVICES: &str = "FAKE_CUDA_DEVICES";

/// The devices that this process sees, and their order.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The devices of this process, by their numbers on the machine, if the environment says.
pub(crate) fn of_the_machine() -> Option<Vec<usize>> {
    let count: usize = env::var(DEVICES).ok()?.parse().ok()?;
    Some(match env::var(VISIBLE) {
        Ok(visible) => seen(&visible, count),
        Err(_) => (0..count).collect(),
    })
}

/// The driver's rule: everything up to the first invalid entry.
pub fn seen(visible: &str, count: usize) -> Vec<usize> {
    let numbers = visible.split(',').map(|number| number.trim().parse().ok());
    numbers.map_while(|number| number.filter(|number| *number < count)).collect()
}

/// A device's unique place on the machine's bus: domain, bus, device.
pub(crate) fn place(physical: usize) -> (u64, u64, u64) {
    (0, physical as u64 + 1, 0)
}
