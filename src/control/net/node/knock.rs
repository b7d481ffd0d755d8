//! Ranks that have lost their way to the others: whether they live.
//!
//! Nobody has a connection to such a rank, so nobody is told when it dies. The one that it should come
//! to knocks at its door: nobody listens there if its process is gone. Who opens may only be late, and
//! has the time that [`Node::expect`] gives it.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use super::super::conns::{Key, Role};
use super::super::io::{Net, Timer};
use super::Node;
use super::dial::REFUSALS;

/// How long a rank has to come before somebody knocks, and how long between two knocks.
pub(super) const RESTS: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(10));

/// Where somebody knocks.
#[derive(Default)]
pub(super) struct Knock {
    /// Held for as long as the other side does: it ends with the process.
    key: Option<Key>,
    tried: u32,
    /// So many times in a row.
    refused: u32,
}

impl Node {
    /// Knocks at all who should have come.
    pub(crate) fn knock(&mut self, net: &mut Net) {
        for rank in self.orphans() {
            let addresses = self.addresses_of(rank);
            let knock = self.knocks.entry(rank).or_default();
            if knock.key.is_some() || addresses.is_empty() {
                continue;
            }
            let address = addresses[knock.tried as usize % addresses.len()];
            knock.tried += 1;
            let role = Role::Knock { node: self.key, rank };
            match TcpStream::connect(address).and_then(|stream| net.conns.add(stream, role)) {
                Ok(key) => knock.key = Some(key),
                Err(error) => {
                    let is_refused = error.kind() == ErrorKind::ConnectionRefused;
                    self.knocked(net, rank, &format!("{error} ({address})"), is_refused);
                }
            }
        }
    }

    /// Nobody has opened, or nobody holds the door any more.
    pub(crate) fn knocked(&mut self, net: &mut Net, rank: u32, why: &str, is_refused: bool) {
        let ways = self.addresses_of(rank).len().max(1);
        let Some(knock) = self.knocks.get_mut(&rank) else { return };
        knock.key = None;
        knock.refused = if is_refused { knock.refused + 1 } else { 0 };
        if knock.refused as usize >= REFUSALS as usize * ways {
            self.knocks.remove(&rank);
            let why =
                format!("it has lost its way, and rank {} cannot connect to it: {why}", self.rank);
            return self.death(net, rank, &why);
        }
        // It rests when it has tried all ways.
        let has_tried_all = (knock.tried as usize).is_multiple_of(ways);
        let rest = if has_tried_all { RESTS.1 } else { Duration::ZERO };
        net.timers.set(Instant::now() + rest, Timer::Knock(self.key));
    }

    /// It has come, or is not expected any more.
    pub(super) fn no_knock(&mut self, net: &mut Net, rank: u32) {
        if let Some(key) = self.knocks.remove(&rank).and_then(|knock| knock.key) {
            net.conns.remove(key);
        }
    }
}
