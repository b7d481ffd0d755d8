//! Connections that a node makes: to the rank above it, or to where the ranks meet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::super::address;
use super::super::conns::{Key, Role};
use super::super::endpoint::{Net, Timer};
use super::super::ident::CommId;
use super::super::proof::{CHALLENGE, Claim, JobName, Purpose, Verdict, Version};
use super::Node;
use super::standing::{REFUSALS, Sign};
use crate::control::RateLimited;

/// Anybody can listen there, so a rank that is refused without a proof goes on trying.
const OTHER_SECRET: &str = "what listens there does not know the secret of this rank: it is of another job, or the ranks differ in TYPED_NCCL_SECRET";

/// How long a rest between two attempts is at least and at most.
const RESTS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// A connection that a node tries to make.
pub(super) struct Dial {
    /// A rank, or where the ranks meet.
    pub(super) to: Option<u32>,
    pub(super) key: Option<Key>,
    address: Option<SocketAddr>,
    /// Why it was not made, the last time at each address.
    reasons: BTreeMap<SocketAddr, String>,
    tried: u32,
    refused: u32,
    /// Since when nobody has answered.
    since: Instant,
}

impl Dial {
    pub(super) fn new(to: Option<u32>, since: Instant) -> Self {
        Self { to, key: None, address: None, reasons: BTreeMap::new(), tried: 0, refused: 0, since }
    }
}

/// `a: refused; b: it does not answer`
fn reasons(all: &BTreeMap<SocketAddr, String>) -> String {
    let all: Vec<String> = all.iter().map(|(at, why)| format!("{at}: {why}")).collect();
    all.join("; ")
}

impl Node {
    pub(super) fn dial(&mut self, net: &mut Net, to: Option<u32>) {
        self.dial = Some(Dial::new(to, net.now()));
        self.retry_dial(net);
    }

    pub(crate) fn retry_dial(&mut self, net: &mut Net) {
        let Some(Dial { to, key: None, tried, .. }) = self.dial else { return };
        let addresses = match to {
            None => self.meet.as_ref().map(|meet| meet.addresses.clone()).unwrap_or_default(),
            Some(rank) => self.addresses_of(rank),
        };
        if addresses.is_empty() {
            // It is tried when there are some.
            self.dial = None;
            return;
        }
        let address = addresses[tried as usize % addresses.len()];
        if let Some(dial) = &mut self.dial {
            dial.address = Some(address);
            dial.tried += 1;
            let role = Role::Dial { node: self.key, sent: None };
            dial.key = Some(net.conns.connect(address, role));
        }
    }

    /// A connection cannot be made now, as this process lacks something: the other side has all its
    /// time.
    pub(crate) fn handle_local_dial_error(&mut self, net: &mut Net, why: &str) {
        if let Some(dial) = &mut self.dial {
            dial.since = net.now();
        }
        self.handle_dial_error(net, why, false);
    }

    pub(super) fn addresses_of(&self, rank: u32) -> Vec<SocketAddr> {
        let Some(member) = self.member_of(rank) else { return Vec::new() };
        let is_near = member.host_number == self.member.host_number;
        let mut all = member.addresses.clone();
        all.retain(|address| is_near || !address::plain(*address).ip().is_loopback());
        all
    }

    /// A connection could not be made.
    pub(crate) fn handle_dial_error(&mut self, net: &mut Net, why: &str, is_refused: bool) {
        let Some(dial) = &mut self.dial else { return };
        dial.key = None;
        if let Some(address) = dial.address {
            dial.reasons.insert(address, why.to_owned());
        }
        dial.refused = if is_refused { dial.refused + 1 } else { 0 };
        let (to, tried, refused, waited) =
            (dial.to, dial.tried, dial.refused, net.now() - dial.since);
        let reasons = reasons(&dial.reasons);
        let at = dial.address.map_or_else(String::new, |address| address.to_string());
        let ways = match to {
            Some(rank) => self.addresses_of(rank).len(),
            None => self.meet.as_ref().map_or(1, |meet| meet.addresses.len()),
        };
        let ways = u32::try_from(ways).unwrap_or(1).max(1);
        match to {
            None => {
                let name = self.meet.as_ref().map_or("", |meet| &meet.name);
                let trouble = format!(
                    "the place where the ranks meet, {name}, cannot be reached at {reasons}"
                );
                self.meeting().inspect(|meeting| meeting.set_trouble(trouble));
                if self.gives_up_rendezvous(net) {
                    self.dial = None;
                    return;
                }
                if self.meets_at_creator() && refused >= REFUSALS * ways {
                    let why = format!(
                        "came to a process that is gone, {at}, which made the id or the invitation and lives until the ranks have met: {why}"
                    );
                    self.dial = None;
                    return self.fail(net, vec![self.rank], why);
                }
            }
            Some(rank) => {
                let why = format!("rank {} cannot connect to it at {at}: {why}", self.rank);
                let signs = [
                    Sign::Refuses { times: refused, addresses: ways },
                    Sign::Silent { waited, most: net.conns.heartbeat * 3 },
                ];
                // Whoever is told of a death looks for another way only once.
                let dial = self.dial.take();
                if signs.iter().any(|sign| self.judge(net, rank, sign, &why)) {
                    return self.attach(net);
                }
                self.dial = dial;
            }
        }
        // It rests when it has tried all.
        let rest =
            if tried % ways == 0 { RESTS.0 * (1 << (tried / ways).min(5)) } else { Duration::ZERO };
        net.timers.set(net.now() + rest.min(RESTS.1), Timer::Dial(self.key));
    }

    /// What to claim on a connection that this node makes.
    pub(crate) fn claim(&self) -> Option<Claim> {
        let (version, from) = (Version::own(), self.rank);
        match self.dial.as_ref()?.to {
            None => {
                let id = self.meet.as_ref()?.id;
                Some(Claim { version, id, purpose: Purpose::Meet, from, to: 0 })
            }
            Some(to) => {
                let purpose = Purpose::Link { has_table: self.table.is_some() };
                Some(Claim { version, id: self.id?, purpose, from, to })
            }
        }
    }

    /// The name of this rank's job, if the side that sent the challenge is of it.
    pub(crate) fn job_of(&self, challenge: &[u8; CHALLENGE]) -> Option<&JobName> {
        let name = &self.meet.as_ref()?.job.as_ref()?.name;
        let Dial { to: None, address: Some(at), .. } = self.dial.as_ref()? else { return None };
        name.is_in_challenge(challenge, at.port()).then_some(name)
    }

    /// How the other side took the claim; the role of the connection, if it stands.
    pub(crate) fn handle_verdict(
        &mut self,
        net: &mut Net,
        key: Key,
        verdict: Option<Verdict>,
        other: Version,
    ) -> Option<Role> {
        let to = self.dial.as_ref()?.to;
        match (verdict, to) {
            (Some(Verdict::Welcome), None) => {
                self.dial = None;
                self.bootstrap = Some(key);
                self.send_hello(net, key);
                return Some(Role::Bootstrap { node: self.key });
            }
            (Some(Verdict::Welcome), Some(peer)) => {
                self.dial = None;
                self.up = Some(key);
                return Some(Role::Link { node: self.key, peer });
            }
            (Some(Verdict::OtherVersion), _) => {
                let ranks = vec![self.rank];
                let why = format!(
                    "runs {}, and where the ranks meet it is {other}: run one build on all ranks",
                    Version::own()
                );
                self.fail(net, ranks, why);
            }
            (Some(Verdict::Dead), _) => {
                self.exclude(net, "they had lost the connection to it");
            }
            (Some(Verdict::Ended), Some(peer)) => {
                self.standing.handle_goodbye(peer, true);
                net.conns.remove(key);
                self.dial = None;
                self.attach(net);
                return None;
            }
            (Some(Verdict::Ended), None) if !self.may_be_stale() => {
                let why = "come to a meeting that has been held: an id serves one communicator"
                    .to_owned();
                self.fail(net, vec![self.rank], why);
            }
            (Some(Verdict::Unknown), _) => {
                self.handle_dial_error(
                    net,
                    "what listens there says that nobody meets there",
                    false,
                );
            }
            (Some(Verdict::Ended), None) => {
                self.handle_dial_error(net, "an earlier run has met there", false)
            }
            (Some(Verdict::Unproven) | None, _) => {
                static REFUSED: RateLimited = RateLimited::new();
                let at = self.dial.as_ref().and_then(|dial| dial.address);
                let at = at.map_or_else(String::new, |at| format!(" at {at}"));
                REFUSED.warn(format_args!("rank {} came{at}: {OTHER_SECRET}", self.rank));
                self.handle_dial_error(net, OTHER_SECRET, false);
            }
        }
        None
    }

    /// The ranks of its job meet there, and have another secret.
    pub(crate) fn handle_other_secret(&mut self, net: &mut Net) {
        self.dial = None;
        if let Some(job) = self.meet.as_ref().and_then(|meet| meet.job.clone()) {
            let (ranks, why) = job.other_secret(self.rank);
            self.fail(net, ranks, why);
        }
    }

    /// Whether the ranks meet at the process that said where they do, which listened then.
    fn meets_at_creator(&self) -> bool {
        self.meet.as_ref().is_some_and(|meet| meet.id != CommId::THERE && !meet.may_be_stale)
    }

    fn may_be_stale(&self) -> bool {
        self.meet.as_ref().is_some_and(|meet| meet.may_be_stale)
    }
}
