//! What the system lets a process have.

use crate::{Finding, Machine};

/// What NCCL needs of shared memory, for a machine's ranks. Ranks on the CPU have memory of their
/// own kind, which this does not limit.
const SHARED: u64 = 1 << 30;
/// What registering memory with a network card needs.
const LOCKED: u64 = 1 << 30;

pub(crate) fn check(machine: &Machine) -> Vec<Finding> {
    let found = machine.shared_memory.map(|bytes| format!("{} in all", size(bytes)));
    let found = found.unwrap_or_else(|| "there is none".to_owned());
    let shared = match machine.shared_memory {
        Some(bytes) if bytes >= SHARED => Finding::ok("/dev/shm", found),
        _ if machine.gpus.is_empty() => {
            Finding::note("/dev/shm", format!("{found}; enough for ranks on the CPU"))
        }
        Some(_) => Finding::problem(
            "/dev/shm",
            found,
            "NCCL's ranks of one machine exchange data there: docker run --shm-size=8g, or \
             mount -o remount,size=8g /dev/shm; in Kubernetes an emptyDir with medium: Memory",
        ),
        None => Finding::problem(
            "/dev/shm",
            found,
            "NCCL's ranks of one machine exchange data there: mount -t tmpfs tmpfs /dev/shm",
        ),
    };
    let locked = match machine.locked {
        Some(u64::MAX) => Finding::ok("memlock", "unlimited"),
        // Only cards with RDMA register memory.
        Some(bytes) if bytes < LOCKED => {
            let found = format!("a process may lock {}", size(bytes));
            let remedy = "NCCL registers memory with InfiniBand and RoCE cards: docker run \
                          --ulimit memlock=-1, LimitMEMLOCK=infinity for slurmd, or \
                          /etc/security/limits.conf";
            match machine.interfaces.iter().any(|it| it.name.starts_with("ib")) {
                true => Finding::problem("memlock", found, remedy),
                false => Finding::note("memlock", format!("{found}; enough without RDMA cards")),
            }
        }
        Some(bytes) => Finding::ok("memlock", format!("a process may lock {}", size(bytes))),
        None => Finding::note("memlock", "the limit is not known"),
    };
    vec![shared, locked]
}

/// `64 MiB`
fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}
