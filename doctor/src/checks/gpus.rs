//! GPUs that NCCL can use together.

use crate::{Finding, Machine};

pub(crate) fn check(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(first) = machine.gpus.first() else {
        let why = machine.no_gpus.as_deref().unwrap_or("nvidia-smi lists none");
        found.push(Finding::note(
            "GPUs",
            format!(
                "none here ({why}). What works without: ranks as threads (TYPED_NCCL=host:8), \
                 ranks as processes (TYPED_NCCL=host:8,processes, or by a launcher), plans and \
                 their checks, the tests"
            ),
        ));
        return found;
    };
    let cuda = machine.cuda.map(|(major, minor)| format!(", CUDA up to {major}.{minor}"));
    found.push(Finding::ok(
        "GPUs",
        format!(
            "{} x {}, driver {}{}",
            machine.gpus.len(),
            first.name,
            first.driver,
            cuda.unwrap_or_default()
        ),
    ));
    if let Some(other) = machine.gpus.iter().find(|gpu| gpu.name != first.name) {
        found.push(Finding::problem(
            "GPUs alike",
            format!(
                "GPU {} is a {}, GPU {} a {}",
                first.index, first.name, other.index, other.name
            ),
            "the slowest one sets the pace of every collective: choose GPUs of one kind with \
             CUDA_VISIBLE_DEVICES",
        ));
    }
    for gpu in &machine.gpus {
        if gpu.is_divided {
            found.push(Finding::problem(
                "MIG",
                format!("GPU {} is divided", gpu.index),
                "instances have no peer access, and a process sees one of them: give each process \
                 one by CUDA_VISIBLE_DEVICES=MIG-.., or end MIG with nvidia-smi -mig 0",
            ));
        }
        match gpu.mode.as_str() {
            "Prohibited" => found.push(Finding::problem(
                "compute mode",
                format!("GPU {} takes no work", gpu.index),
                "nvidia-smi -c DEFAULT",
            )),
            "Exclusive_Process" => found.push(Finding::note(
                "compute mode",
                format!("GPU {} takes one process at a time: two ranks cannot share it", gpu.index),
            )),
            _ => {}
        }
    }
    if !machine.no_peers.is_empty() {
        let pairs: Vec<_> =
            machine.no_peers.iter().map(|(one, other)| format!("{one} and {other}")).collect();
        found.push(Finding::problem(
            "peer access",
            format!("none between GPUs {}", pairs.join(", ")),
            "data goes through the CPU's memory: check the topology with nvidia-smi topo -m, and \
             IOMMU and ACS in the BIOS; in a virtual machine, pass the switches through too",
        ));
    }
    found
}
