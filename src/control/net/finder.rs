//! Finds the rendezvous by address, host name or file. A thread does the blocking work, and ends
//! with the search.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpListener;

use super::hub::{Command, Hub, NodeKey, failed};
use super::ident::CommId;
use super::job::Job;
use super::proof::CHALLENGE;
use super::{Meeting, address, file, inherited};
use crate::Result;

/// How often a name is resolved or a file read.
const EVERY: Duration = Duration::from_millis(50);

/// How long to look before the log says why it takes so long. The deadline may be minutes away.
const SILENT: Duration = Duration::from_secs(10);

/// How long rank 0 waits for its port, which its previous communicator may be about to release.
const PORT: Duration = Duration::from_secs(3);

/// How long the owner of a port has to identify itself.
const ANSWER: Duration = Duration::from_secs(1);

/// An address as the user wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Address {
    Literal(SocketAddr),
    Name(String, u16),
}

impl Address {
    pub(super) fn literal(&self) -> Option<SocketAddr> {
        match self {
            Self::Literal(address) => Some(*address),
            Self::Name(..) => None,
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Address, String> {
    let bad = || {
        format!("`{text}` is no address: give `host:port`, `10.0.0.1:port` or `[2001:db8::1]:port`")
    };
    if let Ok(address) = text.parse::<SocketAddr>() {
        return if address.port() == 0 { Err(bad()) } else { Ok(Address::Literal(address)) };
    }
    let (name, port) = text.rsplit_once(':').ok_or_else(bad)?;
    let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(bad)?;
    let is_name = !name.is_empty() && name.len() <= 253 && !name.contains([':', '/', '[', ' ']);
    match name {
        "localhost" => Ok(Address::Literal((Ipv4Addr::LOCALHOST, port).into())),
        name if is_name => Ok(Address::Name(name.to_owned(), port)),
        _ => Err(bad()),
    }
}

/// Listens at the first free address, for rank 0. Without a listener, another rank 0 of the same
/// job has that address.
pub(super) fn listen(
    places: Vec<Address>,
    job: Option<&Job>,
) -> io::Result<(Option<TcpListener>, Address)> {
    let started = Instant::now();
    loop {
        let mut taken = None;
        for at in &places {
            let outcome = match at {
                Address::Literal(address) => match inherited::at(*address) {
                    Some(acceptor) => Ok(acceptor),
                    None => address::listen(Some(*address)),
                },
                Address::Name(_, port) => address::listen_everywhere(*port),
            };
            match outcome {
                Ok(acceptor) => return Ok((Some(acceptor), at.clone())),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    if job.is_some_and(|job| is_of(job, at)) {
                        return Ok((None, at.clone()));
                    }
                    taken = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match taken {
            Some(_) if started.elapsed() < PORT => thread::sleep(EVERY),
            taken => return Err(taken.unwrap_or_else(|| ErrorKind::AddrNotAvailable.into())),
        }
    }
}

/// Whether a process of this job listens there, on this host.
fn is_of(job: &Job, at: &Address) -> bool {
    let at = match at {
        Address::Literal(address) => *address,
        Address::Name(_, port) => (Ipv4Addr::LOCALHOST, *port).into(),
    };
    let challenge = || -> io::Result<[u8; CHALLENGE]> {
        let mut peer = TcpStream::connect_timeout(&at, ANSWER)?;
        peer.set_read_timeout(Some(ANSWER))?;
        let mut challenge = [0; CHALLENGE];
        peer.read_exact(&mut challenge)?;
        Ok(challenge)
    };
    challenge().is_ok_and(|challenge| job.name.is_in_challenge(&challenge, at.port()))
}

/// Resolves host names until all have an address.
pub(super) fn resolve(
    hub: &Arc<Hub>,
    node: NodeKey,
    meeting: &Arc<Meeting>,
    places: Vec<Address>,
) -> Result<()> {
    search(hub, meeting, move |hub, meeting| {
        let mut found = Vec::new();
        for at in &places {
            let Address::Name(name, port) = at else { continue };
            let before = found.len();
            match (name.as_str(), *port).to_socket_addrs() {
                Ok(addresses) => found.extend(addresses),
                Err(error) => {
                    meeting.set_trouble(format!("{name} is not known: {error}"));
                    return false;
                }
            }
            if found.len() == before {
                meeting.set_trouble(format!("{name} has no address"));
                return false;
            }
        }
        let mut seen = HashSet::new();
        found.retain(|address| seen.insert(*address));
        // IPv4 first: rank 0 may listen on addresses of one family only.
        found.sort_by_key(|address| matches!(address.ip(), IpAddr::V6(_)));
        hub.send(Command::Found { node, at: found, id: CommId::THERE, secret: None });
        true
    })
}

/// Reads a file until the ranks have met: the first content may be of an earlier run.
pub(super) fn read(
    hub: &Arc<Hub>,
    node: NodeKey,
    meeting: &Arc<Meeting>,
    path: &Path,
) -> Result<()> {
    let path: PathBuf = path.to_owned();
    let mut last = None;
    search(hub, meeting, move |hub, meeting| {
        match file::read(&path) {
            Ok(Some(place)) if last.as_ref() != Some(&place.id) => {
                last = Some(place.id);
                let (at, id, secret) = (place.addresses, place.id, Some(place.secret));
                hub.send(Command::Found { node, at, id, secret });
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                meeting.set_trouble(format!("{} is not there: rank 0 writes it", path.display()));
            }
            Err(error) => {
                meeting.set_trouble(format!("{} cannot be used: {error}", path.display()))
            }
        }
        false
    })
}

/// Runs `look` on a thread until it returns true or the meeting is gone.
fn search(
    hub: &Arc<Hub>,
    meeting: &Arc<Meeting>,
    mut look: impl FnMut(&Hub, &Meeting) -> bool + Send + 'static,
) -> Result<()> {
    let (hub, meeting): (_, Weak<Meeting>) = (hub.clone(), Arc::downgrade(meeting));
    let search = move || {
        let started = Instant::now();
        let mut is_silent = true;
        while let Some(meeting) = meeting.upgrade() {
            if meeting.id() != 0 || look(&hub, &meeting) {
                break;
            }
            if is_silent && started.elapsed() > SILENT {
                is_silent = false;
                meeting.warn_of_trouble(SILENT);
            }
            drop(meeting);
            thread::sleep(EVERY);
        }
    };
    let thread = thread::Builder::new().name("typed-nccl finder".to_owned());
    let spawned = thread.spawn(search);
    spawned
        .map(drop)
        .map_err(|error| failed(format!("no thread to look for the other ranks: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{Address, parse};

    #[test]
    fn addresses_are_hosts_with_a_port() {
        let literal = |text: &str| Address::Literal(text.parse().expect("an address"));
        assert_eq!(parse("10.0.0.1:29500"), Ok(literal("10.0.0.1:29500")));
        assert_eq!(parse("[::1]:29500"), Ok(literal("[::1]:29500")));
        assert_eq!(parse("localhost:29500"), Ok(literal("127.0.0.1:29500")));
        assert_eq!(parse("node-1.example:80"), Ok(Address::Name("node-1.example".to_owned(), 80)));
        for bad in [
            "",
            ":",
            "host",
            "host:",
            ":80",
            "host:0",
            "10.0.0.1:0",
            "host:99999",
            "::1:80",
            "http://h:80",
            "a b:80",
        ] {
            let error = parse(bad).expect_err(bad);
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
    }
}
