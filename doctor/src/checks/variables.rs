//! Variables that do nothing, because they are misspelt, or too much.

use super::names::{known, nearest};
use crate::{Finding, Machine};

/// Variables that slow NCCL down or change what it does, if they are set to something like this.
const SLOW: [(&str, &str, &str); 6] = [
    ("NCCL_P2P_DISABLE", "1", "GPUs do not reach each other's memory"),
    ("NCCL_SHM_DISABLE", "1", "ranks of one machine talk over the network"),
    ("NCCL_IB_DISABLE", "1", "InfiniBand and RoCE are not used"),
    ("NCCL_NVLS_ENABLE", "0", "NVLink's multicast is not used"),
    ("NCCL_DEBUG", "TRACE", "every call is logged"),
    (
        "CUDA_LAUNCH_BLOCKING",
        "1",
        "every launch waits, and ranks of one process wait for each other",
    ),
];

pub(crate) fn check(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in machine.variables.keys() {
        found.extend(["NCCL_", "TYPED_NCCL_"].iter().find_map(|prefix| misspelt(prefix, name)));
    }
    for (name, value, what) in SLOW {
        if machine.variable(name).is_some_and(|set| set.eq_ignore_ascii_case(value)) {
            found.push(Finding::problem(
                "variables",
                format!("{name}={value}: {what}"),
                format!("unset {name}, unless that is meant"),
            ));
        }
    }
    for refused in typed_nccl::__private::doctor::refused_variables() {
        found.push(Finding::problem(
            "variables",
            refused,
            "docs/guide/src/environment.md says what each variable breaks",
        ));
    }
    if found.is_empty() {
        let set: Vec<_> =
            machine.variables.keys().filter(|name| name.starts_with("NCCL_")).cloned().collect();
        found.push(match set.is_empty() {
            true => Finding::ok("variables", "none of NCCL's is set"),
            false => Finding::ok("variables", format!("{} are set, and known", set.join(", "))),
        });
    }
    found
}

fn misspelt(prefix: &str, name: &str) -> Option<Finding> {
    let rest = name.strip_prefix(prefix)?;
    if known(prefix).any(|known| known == rest) {
        return None;
    }
    Some(match nearest(prefix, rest) {
        Some(meant) => Finding::problem(
            "variables",
            format!("{name} is set, and nobody reads it"),
            format!("is {prefix}{meant} meant?"),
        ),
        None => Finding::note("variables", format!("{name} is set, and not documented")),
    })
}
