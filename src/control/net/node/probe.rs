//! Probes of orphans: ranks without a parent, whose death no connection would show.
//!
//! The rank that an orphan should attach to connects to its listener. A refusal shows that the
//! process is gone. An orphan that accepts may only be late, and has the time that
//! [`Node::await_orphans`] gives it.

use std::time::Duration;

use super::super::conns::{Key, Role};
use super::super::endpoint::{Net, Timer};
use super::Node;
use super::standing::Sign;

/// The time before an orphan is probed, and the pause between two probes.
pub(super) const PAUSES: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(10));

/// A probe of one orphan.
#[derive(Default)]
pub(super) struct Probe {
    /// Kept open: the connection ends with the orphan's process.
    key: Option<Key>,
    tried: u32,
    /// Consecutive refusals.
    refused: u32,
}

impl Node {
    pub(crate) fn probe_orphans(&mut self, net: &mut Net) {
        for rank in self.orphans() {
            let addresses = self.addresses_of(rank);
            let probe = self.probes.entry(rank).or_default();
            if probe.key.is_some() || addresses.is_empty() {
                continue;
            }
            let address = addresses[probe.tried as usize % addresses.len()];
            probe.tried += 1;
            let role = Role::Probe { node: self.key, rank };
            probe.key = Some(net.conns.connect(address, role));
        }
    }

    /// The orphan did not accept, or its end of the connection closed.
    pub(crate) fn handle_probe_error(
        &mut self,
        net: &mut Net,
        rank: u32,
        why: &str,
        is_refused: bool,
    ) {
        let address_count = self.addresses_of(rank).len().max(1);
        let Some(probe) = self.probes.get_mut(&rank) else { return };
        probe.key = None;
        probe.refused = if is_refused { probe.refused + 1 } else { 0 };
        // Pause only after trying every address.
        let has_tried_all = (probe.tried as usize).is_multiple_of(address_count);
        let addresses = u32::try_from(address_count).unwrap_or(u32::MAX);
        let sign = Sign::Refuses { times: probe.refused, addresses };
        let why =
            format!("it has lost its way, and rank {} cannot connect to it: {why}", self.rank);
        if self.judge(net, rank, &sign, &why) {
            self.probes.remove(&rank);
            return;
        }
        let pause = if has_tried_all { PAUSES.1 } else { Duration::ZERO };
        net.timers.set(net.now() + pause, Timer::Probe(self.key));
    }

    /// The orphan has attached, or is no longer expected.
    pub(super) fn cancel_probe(&mut self, net: &mut Net, rank: u32) {
        if let Some(key) = self.probes.remove(&rank).and_then(|probe| probe.key) {
            net.conns.remove(key);
        }
    }
}
