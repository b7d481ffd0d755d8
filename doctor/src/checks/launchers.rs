//! What a launcher says, and whether the ranks can meet.

use std::net::TcpListener;

use typed_nccl::__private::doctor::{Launch, launch};

use crate::{Finding, Machine};

pub(crate) fn check(_: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    match launch() {
        Ok(Some(launched)) => {
            let at = launched.addresses.join(", ");
            found.push(Finding::ok(
                "launcher",
                format!("{}; rank 0 listens at {at}", launched.says),
            ));
            found.extend(port(&launched));
        }
        Ok(None) => found.push(Finding::note(
            "launcher",
            "none started this process as a rank: run the doctor by yours, on each machine, to \
             check what it says (srun typed-nccl doctor)",
        )),
        Err(why) => found.push(Finding::problem(
            "launcher",
            why.to_string(),
            "docs/guide/src/jobs.md has a command line for each launcher",
        )),
    }
    if let Err(why) = TcpListener::bind(("0.0.0.0", 0)) {
        found.push(Finding::problem(
            "control plane",
            format!("no port can be bound: {why}"),
            "ranks listen for each other: allow it in the sandbox or by the firewall's rules",
        ));
    }
    found
}

/// Whether rank 0 can listen.
fn port(launched: &Launch) -> Option<Finding> {
    if launched.rank != 0 {
        return None;
    }
    let ports: Vec<u16> = launched
        .addresses
        .iter()
        .filter_map(|address| address.rsplit_once(':')?.1.parse().ok())
        .collect();
    let mut why = None;
    for port in &ports {
        match TcpListener::bind(("0.0.0.0", *port)) {
            Ok(_) => {
                return Some(Finding::ok("control plane", format!("rank 0 can bind port {port}")));
            }
            Err(error) => why = Some(error),
        }
    }
    let why = why?;
    let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
    Some(Finding::problem(
        "control plane",
        format!("rank 0 cannot bind port {}: {why}", ports.join(", ")),
        "another program has it, perhaps an earlier job (ss -ltnp shows which): end it, or choose \
         another port with MASTER_PORT or TYPED_NCCL_ADDRESS",
    ))
}
