//! Outgoing connections of a node: to a rank above it, or to the rendezvous.

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

/// Anybody can listen at an address, so a refusal without a proof does not end the attempts.
const OTHER_SECRET: &str = "what listens there does not know the secret of this rank: it is of another job, or the ranks differ in TYPED_NCCL_SECRET";

/// The shortest and the longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// An outgoing connection that is not established yet.
pub(super) struct Dial {
    /// A rank, or the rendezvous.
    pub(super) to: Option<u32>,
    pub(super) key: Option<Key>,
    address: Option<SocketAddr>,
    /// The latest failure at each address.
    reasons: BTreeMap<SocketAddr, String>,
    tried: u32,
    refused: u32,
    /// Start of the time limit for an answer.
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
            // `handle_rendezvous` dials once an address is known.
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

    /// This process lacks descriptors or memory, so restart the peer's time limit.
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
        let address_count = match to {
            Some(rank) => self.addresses_of(rank).len(),
            None => self.meet.as_ref().map_or(1, |meet| meet.addresses.len()),
        };
        let address_count = u32::try_from(address_count).unwrap_or(1).max(1);
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
                if self.meets_at_creator() && refused >= REFUSALS * address_count {
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
                    Sign::Refuses { times: refused, addresses: address_count },
                    Sign::Silent { waited, most: net.conns.heartbeat * 3 },
                ];
                // Taking the dial keeps `judge` from attaching to another rank as well.
                let dial = self.dial.take();
                if signs.iter().any(|sign| self.judge(net, rank, sign, &why)) {
                    return self.attach(net);
                }
                self.dial = dial;
            }
        }
        // Pause only after trying every address.
        let pause = if tried % address_count == 0 {
            PAUSES.0 * (1 << (tried / address_count).min(5))
        } else {
            Duration::ZERO
        };
        net.timers.set(net.now() + pause.min(PAUSES.1), Timer::Dial(self.key));
    }

    /// The claim for the current dial.
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

    /// The name of this rank's job, if the challenge proves that the peer has the same.
    pub(crate) fn job_of(&self, challenge: &[u8; CHALLENGE]) -> Option<&JobName> {
        let name = &self.meet.as_ref()?.job.as_ref()?.name;
        let Dial { to: None, address: Some(at), .. } = self.dial.as_ref()? else { return None };
        name.is_in_challenge(challenge, at.port()).then_some(name)
    }

    /// Handles the verdict on this rank's claim; the connection's new role, if it is accepted.
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
                // What it said last comes by another rank.
                self.standing.handle_silent_goodbye(peer);
                net.conns.remove(key);
                self.dial = None;
                self.await_orphans(net);
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

    /// The rendezvous belongs to this rank's job, whose secret differs.
    pub(crate) fn handle_other_secret(&mut self, net: &mut Net) {
        self.dial = None;
        if let Some(job) = self.meet.as_ref().and_then(|meet| meet.job.clone()) {
            let (ranks, why) = job.other_secret(self.rank);
            self.fail(net, ranks, why);
        }
    }

    /// Whether the rendezvous is in the process that created the id, which was listening then.
    fn meets_at_creator(&self) -> bool {
        self.meet.as_ref().is_some_and(|meet| meet.id != CommId::THERE && !meet.may_be_stale)
    }

    fn may_be_stale(&self) -> bool {
        self.meet.as_ref().is_some_and(|meet| meet.may_be_stale)
    }
}
