//! The interfaces that NCCL would take, and this machine's name.

use std::net::IpAddr;

use crate::{Finding, Interface, Machine};

const CHOICE: &str = "NCCL_SOCKET_IFNAME";

pub(crate) fn check(machine: &Machine) -> Vec<Finding> {
    vec![interfaces(machine), name(machine)]
}

fn interfaces(machine: &Machine) -> Finding {
    let choice = machine.variable(CHOICE);
    let taken = taken(&machine.interfaces, choice);
    let names = |all: &[&Interface]| {
        all.iter().map(|interface| interface.name.clone()).collect::<Vec<_>>().join(", ")
    };
    let (up, down): (Vec<&Interface>, Vec<&Interface>) =
        taken.into_iter().partition(|it| it.is_up && !it.addresses.is_empty());
    let all = names(&machine.interfaces.iter().collect::<Vec<_>>());
    let local = up.iter().find(|it| is_local(&it.name));
    match (choice, up.as_slice(), local) {
        (Some(choice), [], _) if !down.is_empty() => Finding::problem(
            "interfaces",
            format!("{CHOICE}={choice} chooses {}, which is down or has no address", names(&down)),
            format!("choose one that is up, of {all}"),
        ),
        (Some(choice), [], _) => Finding::problem(
            "interfaces",
            format!("{CHOICE}={choice} chooses none of {all}"),
            "name a prefix of an interface (eth), one exactly (=eth0), or those to leave out (^docker)",
        ),
        (Some(choice), _, Some(local)) => Finding::problem(
            "interfaces",
            format!("{CHOICE}={choice} chooses {}, which other machines cannot reach", local.name),
            format!("for a job of several machines choose another one of {all}"),
        ),
        (None, [], _) => Finding::problem(
            "interfaces",
            format!("none is up, of {all}"),
            format!("on one machine, {CHOICE}=lo works; for several, bring one up"),
        ),
        (_, [only], _) => Finding::ok("interfaces", format!("NCCL takes {}", only.name)),
        (Some(choice), several, _) => {
            Finding::ok("interfaces", format!("{CHOICE}={choice} chooses {}", names(several)))
        }
        (None, several, _) => Finding::problem(
            "interfaces",
            format!("several are up: {}; NCCL takes them in this order", names(several)),
            format!(
                "if the machines do not reach each other by all of them, choose: {CHOICE}={}",
                several[0].name
            ),
        ),
    }
}

/// The interfaces that NCCL considers. Without a choice: all but the loopback's and Docker's.
fn taken<'i>(all: &'i [Interface], choice: Option<&str>) -> Vec<&'i Interface> {
    let Some(choice) = choice else {
        let others = || all.iter().filter(|it| !is_local(&it.name));
        let up = others().filter(|it| it.is_up && !it.addresses.is_empty());
        return up.collect();
    };
    let (leaves_out, choice) = match choice.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, choice),
    };
    let (exactly, choice) = match choice.strip_prefix('=') {
        Some(rest) => (true, rest),
        None => (false, choice),
    };
    let names: Vec<&str> = choice.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    let is_named = |it: &&Interface| {
        names.iter().any(|name| match exactly {
            true => it.name == *name,
            false => it.name.starts_with(name),
        })
    };
    all.iter().filter(|it| is_named(it) != leaves_out).collect()
}

/// Interfaces that end at this machine.
fn is_local(name: &str) -> bool {
    ["lo", "docker", "veth", "br-", "virbr", "cni", "flannel", "cali"]
        .iter()
        .any(|prefix| name.starts_with(prefix) && (*prefix != "lo" || name == "lo"))
}

fn name(machine: &Machine) -> Finding {
    let host = &machine.host;
    let is_loopback = |address: &IpAddr| address.is_loopback();
    match machine.addresses.as_slice() {
        [] => Finding::problem(
            "host name",
            format!("{host} has no address"),
            format!(
                "other machines cannot find rank 0 by it: add it to DNS or to /etc/hosts, or set MASTER_ADDR to an address (TYPED_NCCL_ADDRESS for all launchers), not to {host}"
            ),
        ),
        all if all.iter().all(is_loopback) => Finding::problem(
            "host name",
            format!("{host} is {} here", all[0]),
            format!(
                "rank 0 would listen where other machines do not reach it: remove {host} from the line of {} in /etc/hosts",
                all[0]
            ),
        ),
        all => {
            let all: Vec<_> = all.iter().map(ToString::to_string).collect();
            Finding::ok("host name", format!("{host} is {}", all.join(", ")))
        }
    }
}
