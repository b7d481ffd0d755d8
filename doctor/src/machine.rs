//! A machine, as far as the checks look at it.

mod gpus;
mod interfaces;
mod libraries;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

/// A machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The environment.
    pub variables: BTreeMap<String, String>,
    /// The GPUs.
    pub gpus: Vec<Gpu>,
    /// Why the GPUs are not known, if they are not.
    pub no_gpus: Option<String>,
    /// Pairs of GPUs without peer access, by index.
    pub no_peers: Vec<(u32, u32)>,
    /// The newest CUDA that the driver runs, major and minor.
    pub cuda: Option<(u32, u32)>,
    /// The copies of NCCL, in the order in which a program finds them.
    pub libraries: Vec<Library>,
    /// The copy that a program of this library loads, or why it loads none.
    pub loaded: Option<Result<(PathBuf, String), String>>,
    /// The size of `/dev/shm` in bytes.
    pub shared_memory: Option<u64>,
    /// How many bytes a process may lock; `None` if that is not known, `u64::MAX` without a limit.
    pub locked: Option<u64>,
    /// The network interfaces.
    pub interfaces: Vec<Interface>,
    /// The machine's name.
    pub host: String,
    /// The addresses of that name.
    pub addresses: Vec<IpAddr>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is divided (MIG).
    pub is_divided: bool,
    /// Its compute mode: `Default`, `Exclusive_Process`, `Prohibited`.
    pub mode: String,
    /// The driver's version.
    pub driver: String,
}

/// A copy of NCCL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its file.
    pub file: PathBuf,
    /// What leads to it: `LD_LIBRARY_PATH`, `pip`, `the system`.
    pub by: &'static str,
    /// Its release, `2.27.3`, if the file says.
    pub release: Option<String>,
    /// The CUDA that it was built with.
    pub cuda: Option<(u32, u32)>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether it is up.
    pub is_up: bool,
    /// Its addresses. One without is of no use to NCCL.
    pub addresses: Vec<IpAddr>,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables: BTreeMap<_, _> =
            env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim().to_owned();
        let resolved = (host.as_str(), 0).to_socket_addrs();
        let addresses = resolved.map(|all| all.map(|one| one.ip()).collect()).unwrap_or_default();
        let (found, no_peers, cuda) = gpus::here();
        let (gpus, no_gpus) = match found {
            Ok(gpus) => (gpus, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Self {
            libraries: libraries::find(Path::new("/"), &variables),
            loaded: Some(libraries::loaded()),
            gpus,
            no_gpus,
            no_peers,
            cuda,
            shared_memory: shared_memory(),
            locked: locked(),
            interfaces: interfaces::here(),
            host,
            addresses,
            variables,
        }
    }

    /// A variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

fn shared_memory() -> Option<u64> {
    // SAFETY: all-zero bytes are a valid `statvfs`, which holds numbers only.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero, and the struct is ours to write.
    let result = unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &raw mut found) };
    (result == 0).then(|| found.f_blocks as u64 * found.f_frsize as u64)
}

fn locked() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max locked memory"))?;
    match line.split_whitespace().nth(3)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}
