//! Unique identifiers of communicators, processes and hosts.

use std::sync::OnceLock;

use blake2::{Blake2s256, Digest};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::Error;

/// A communicator or a rendezvous.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(super) struct CommId(pub(super) [u8; 16]);

impl CommId {
    /// A placeholder for ranks that know only an address: the listener there knows the rendezvous.
    pub(super) const THERE: Self = Self([0; 16]);

    /// The child of `color` in exchange `seq`: the same on all its members.
    pub(super) fn child(self, seq: u64, color: u32) -> Self {
        let mut hash = Blake2s256::new();
        hash.update(self.0);
        hash.update(seq.to_le_bytes());
        hash.update(color.to_le_bytes());
        Self(sized(&hash.finalize()[..16]))
    }

    /// As a number. The top bit tells it from communicators in memory.
    pub(super) fn number(self) -> u64 {
        u64::from_le_bytes(sized(&self.0[..8])) | 1 << 63
    }
}

/// Bytes as an array, which has as many.
pub(in crate::control) fn sized<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut sized = [0; N];
    sized.copy_from_slice(bytes);
    sized
}

/// Random bytes of the operating system.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(Error::other(format!("the system gives no random bytes: {error}"))),
    }
}

/// A random number for this process.
pub(crate) fn process() -> Result<u64> {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    if let Some(process) = PROCESS.get() {
        return Ok(*process);
    }
    let new = u64::from_le_bytes(random()?);
    Ok(*PROCESS.get_or_init(|| new))
}

/// This machine's name, and a number that tells apart machines of one name.
pub(crate) fn host() -> &'static (String, u64) {
    static HOST: OnceLock<(String, u64)> = OnceLock::new();
    HOST.get_or_init(|| {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let name = read("/proc/sys/kernel/hostname").trim().chars().take(128).collect::<String>();
        let boot = read("/proc/sys/kernel/random/boot_id");
        let hash = Blake2s256::digest(format!("{name}\n{boot}").as_bytes());
        let name = if name.is_empty() { "unknown".to_owned() } else { name };
        (name, u64::from_le_bytes(sized(&hash[..8])))
    })
}

/// The variables in which launchers name the job, with one value on all ranks.
const JOBS: [&str; 7] = [
    "TORCHELASTIC_RUN_ID",
    "SLURM_JOB_ID",
    "FLUX_JOB_ID",
    "PALS_APID",
    "PBS_JOBID",
    "LSB_JOBID",
    "PMIX_NAMESPACE",
];

/// This process's job as `VARIABLE=name`; empty if unknown.
pub(super) fn job() -> &'static str {
    static JOB: OnceLock<String> = OnceLock::new();
    JOB.get_or_init(|| {
        let found = JOBS.iter().find_map(|name| Some((name, std::env::var(name).ok()?)));
        found.map_or_else(String::new, |(name, id)| format!("{name}={id}"))
    })
}
