//! Ranks that have lost their way to the others: whether they live.
//!
//! Nobody has a connection to such a rank, so nobody is told when it dies. The one that it should
//! come to probes its listener: nobody listens there if its process is gone. Who opens may only be
//! late, and has the time that [`Node::expect`] gives it.

use std::time::Duration;

use super::super::conns::{Key, Role};
use super::super::endpoint::{Net, Timer};
use super::Node;
use super::standing::Sign;

/// How long a rank has to come before somebody probes it, and how long between two probes.
pub(super) const RESTS: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(10));

/// A probe of one rank.
#[derive(Default)]
pub(super) struct Probe {
    /// Held for as long as the other side does: it ends with the process.
    key: Option<Key>,
    tried: u32,
    /// So many times in a row.
    refused: u32,
}

impl Node {
    /// Probes all who should have come.
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

    /// Nobody has opened, or nobody holds the connection any more.
    pub(crate) fn handle_probe_error(
        &mut self,
        net: &mut Net,
        rank: u32,
        why: &str,
        is_refused: bool,
    ) {
        let ways = self.addresses_of(rank).len().max(1);
        let Some(probe) = self.probes.get_mut(&rank) else { return };
        probe.key = None;
        probe.refused = if is_refused { probe.refused + 1 } else { 0 };
        // It rests when it has tried all ways.
        let has_tried_all = (probe.tried as usize).is_multiple_of(ways);
        let addresses = u32::try_from(ways).unwrap_or(u32::MAX);
        let sign = Sign::Refuses { times: probe.refused, addresses };
        let why =
            format!("it has lost its way, and rank {} cannot connect to it: {why}", self.rank);
        if self.judge(net, rank, &sign, &why) {
            self.probes.remove(&rank);
            return;
        }
        let rest = if has_tried_all { RESTS.1 } else { Duration::ZERO };
        net.timers.set(net.now() + rest, Timer::Probe(self.key));
    }

    /// It has come, or is not expected any more.
    pub(super) fn cancel_probe(&mut self, net: &mut Net, rank: u32) {
        if let Some(key) = self.probes.remove(&rank).and_then(|probe| probe.key) {
            net.conns.remove(key);
        }
    }
}
