//! Where the ranks of a job meet.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::Variables;
use crate::Result;
use crate::error::{LaunchFault, Launched};

/// Where the ranks of a job meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RendezvousAddress {
    /// Rank 0 listens at the first free one; the others try them in turn.
    pub(crate) addresses: Vec<String>,
    /// The job's name, as far as the launcher provides one. It distinguishes two jobs that try the
    /// same port, and is not secret. `None` for an address set by the user.
    pub(crate) job: Option<String>,
    /// Whether no other job has that name.
    pub(crate) is_unique: bool,
}

/// How many ports are tried.
const PORTS: u16 = 4;

/// Below the ephemeral ports, which start at 32768.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;

impl RendezvousAddress {
    /// On rank 0's machine, at ports derived from the job.
    pub(super) fn on(host: &str, job: String) -> Self {
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        hasher.write(job.as_bytes());
        let places = u64::from((LAST - FIRST) / PORTS);
        let port = FIRST + PORTS * u16::try_from(hasher.finish() % places).unwrap_or(0);
        Self::at(host, port..port + PORTS, job)
    }

    /// Beside a port that is or may be in use.
    pub(super) fn beside(host: &str, port: u16, job: String) -> Self {
        let first = if port > u16::MAX - PORTS { port - PORTS } else { port + 1 };
        Self::at(host, first..=first + (PORTS - 1), job)
    }

    fn at(host: &str, ports: impl Iterator<Item = u16>, job: String) -> Self {
        let bracketed = host.contains(':') && !host.starts_with('[');
        let host = if bracketed { format!("[{host}]") } else { host.to_owned() };
        let addresses = ports.map(|port| format!("{host}:{port}")).collect();
        Self { addresses, job: Some(job), is_unique: true }
    }

    /// For launchers that do not say where rank 0 runs: on this machine, if all ranks are here.
    pub(super) fn here(
        variables: &Variables,
        launched: &Launched,
        local_size: &[&'static str],
        job: Option<String>,
    ) -> Result<Self> {
        let known = local_size.iter().find(|name| variables.is_set(name));
        let here = known.map_or(Ok(None), |name| variables.number(name))?;
        match job {
            Some(job) if here.is_some_and(|here| here as usize == launched.size) => {
                Ok(Self::on("127.0.0.1", job))
            }
            _ => Err(LaunchFault::NoAddress { launched: launched.clone(), here }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PORTS, RendezvousAddress};

    #[test]
    fn ports_beside_another_are_other_ports_up_to_the_last() {
        for port in [1, 29_500, 65_530, 65_531, 65_532, 65_534, 65_535] {
            let beside = RendezvousAddress::beside("h", port, String::new());
            let tried = beside.addresses.iter().map(|address| {
                let (_, port) = address.rsplit_once(':').expect("a host and a port");
                port.parse::<u16>().expect("a port")
            });
            let tried: Vec<_> = tried.collect();
            assert_eq!(tried.len(), usize::from(PORTS), "beside {port}");
            assert!(!tried.contains(&port) && tried.is_sorted(), "{tried:?} beside {port}");
        }
    }
}
