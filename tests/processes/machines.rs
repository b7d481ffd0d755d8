//! Two machines: network namespaces connected by a cable, each with its own host name. Needs the
//! permission to make them.

use std::process::Command;
use std::{env, process};

use typed_nccl::{CommConfig, Communicator, Device, Error, Result, Sum, launch};

use crate::machine::{Run, Test, output, says, with_gpus};
use crate::ranks::{Ranks, free_port};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "two_machines_over_ipv4",
        program: || launch!(meets),
        test: |run| {
            let Some(machines) = Machines::new("4") else { return };
            machines.cable("wire", "10.77.0", 24);
            met(machines.ranks(run, 4, "10.77.0.1:29500", &[]));
        },
    },
    Test {
        name: "two_machines_over_ipv6",
        program: || launch!(meets),
        test: |run| {
            let Some(machines) = Machines::new("6") else { return };
            machines.cable("wire", "fd77:", 64);
            met(machines.ranks(run, 4, "[fd77::1]:29500", &[]));
        },
    },
    Test {
        name: "two_machines_without_gpus",
        program: || launch!(meets),
        test: |run| {
            let Some(machines) = Machines::new("h") else { return };
            machines.cable("wire", "10.77.0", 24);
            let host = ("TYPED_NCCL", "host");
            for ended in machines.ranks(run, 4, "10.77.0.1:29500", &[host]).ended() {
                assert_eq!(ended.status.code(), Some(1), "{ended:?}");
                let told = match cfg!(feature = "mpi") {
                    true => "no launcher of MPI's started this process: start all by `mpirun`",
                    false => "ranks without GPUs share memory: start all on one machine",
                };
                says(ended.said.as_bytes(), &["is on another machine, and", told, "`mpirun`"]);
            }
        },
    },
    Test {
        name: "loopback_over_ipv6",
        program: || launch!(meets),
        test: |run| {
            if std::net::TcpListener::bind("[::1]:0").is_err() {
                return println!("SKIPPED: this machine has no IPv6");
            }
            let address = format!("[::1]:{}", free_port());
            let ranks = Ranks::start(2, |_| {
                let mut command = run.on_gpus();
                command.env("TYPED_NCCL_ADDRESS", &address).env("TYPED_NCCL_IFACE", "lo");
                command
            });
            ranks.succeed();
        },
    },
    Test {
        name: "an_interface_that_is_chosen",
        program: || launch!(works),
        test: |run| {
            let Some(machines) = Machines::new("i") else { return };
            machines.cable("first", "10.77.0", 24);
            machines.cable("second", "10.78.0", 24);
            let chosen = ("TYPED_NCCL_IFACE", "second");
            let mut ranks = machines.ranks(run, 2, "10.78.0.1:29500", &[chosen]);
            (0..2).for_each(|rank| ranks.hears(rank, "begins"));
            for (machine, own) in [(0, "10.78.0.1:"), (1, "10.78.0.2:")] {
                let at = machines.listens_at(machine);
                let only = at.iter().all(|address| address.starts_with(own));
                assert!(only && !at.is_empty(), "machine {machine} listens at {at:?}");
            }
        },
    },
    Test {
        name: "an_interface_that_there_is_not",
        program: || launch!(meets),
        test: |run| {
            let mut command = run.on_gpus();
            command.envs([("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")]);
            command.envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")]);
            command.env("TYPED_NCCL_IFACE", "nope0");
            let ended = output(command);
            assert_eq!(ended.status.code(), Some(1), "{ended:?}");
            let named = ["TYPED_NCCL_IFACE=nope0", "there is no such interface", "there are", "lo"];
            says(&ended.stderr, &named);
        },
    },
    Test {
        name: "a_machine_that_falls_silent",
        program: || launch!(works, config()),
        test: falls_silent,
    },
];

/// No machine announces that it is gone: there is no end of a connection, and no reset. The ranks
/// on the other one find out by themselves, and each side names the other.
fn falls_silent(run: &Run) {
    let Some(machines) = Machines::new("s") else { return };
    machines.cable("wire", "10.77.0", 24);
    let beat = ("TYPED_NCCL_HEARTBEAT", "1.5");
    let mut ranks = machines.ranks(run, 4, "10.77.0.1:29500", &[beat]);
    (0..4).for_each(|rank| ranks.hears(rank, "begins"));
    let processes: Vec<u32> = (0..4).map(|rank| ranks.process(rank)).collect();
    machines.cut("wire");
    for (rank, ended) in ranks.ended().into_iter().enumerate() {
        let (code, said) = (ended.status.code(), &ended.said);
        assert_eq!(code, Some(0), "rank {rank}: {said}");
        let others = if rank < 2 { [2, 3] } else { [0, 1] };
        let named = others.into_iter().find(|other| said.contains(&format!("rank {other} left: ")));
        let named = named.unwrap_or_else(|| panic!("rank {rank} names none of {others:?}: {said}"));
        let place = format!("host node{}, process {}", named / 2, processes[named]);
        assert!(said.contains(&place), "rank {rank}, `{place}`: {said}");
        assert!(said.contains("its last host-side call was"), "rank {rank}: {said}");
    }
}

fn config() -> CommConfig {
    CommConfig::builder().deadline(std::time::Duration::from_secs(30)).build()
}

fn meets<D: Device>(comm: Communicator<D>) -> Result<()> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    println!("hosts {:?}", comm.gather_values(&host.trim().to_owned())?);
    comm.finish()
}

#[track_caller]
fn met(ranks: Ranks) {
    let hosts = r#"hosts ["node0", "node0", "node1", "node1"]"#;
    for (rank, ended) in ranks.ended().into_iter().enumerate() {
        let is_well = ended.status.success() && ended.said.contains(hosts);
        assert!(is_well, "rank {rank}, {}: {}", ended.status, ended.said);
    }
}

/// Works until another rank is lost.
fn works<D: Device>(comm: Communicator<D>) -> Result<()> {
    println!("begins");
    let mut x = comm.device().from_slice(&vec![1_i64; 1000])?;
    let told = loop {
        let round = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| comm.barrier());
        if let Err(error) = round {
            break error;
        }
    };
    println!("{told}");
    match told {
        Error::PeerFailed(_) => {
            drop(comm.abort());
            Ok(())
        }
        told => Err(told),
    }
}

/// Two of them, until this is dropped.
pub(crate) struct Machines([String; 2]);

impl Machines {
    /// `None` without the permission.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let names = [0, 1].map(|at| format!("tn{}{name}{at}", process::id()));
        let machines = Self(names);
        for name in &machines.0 {
            let made = Command::new("ip").args(["netns", "add", name]).output();
            let made = made.is_ok_and(|made| made.status.success());
            let runs = made && machines.by(0, &["true"]).status().is_ok_and(|ran| ran.success());
            if !runs {
                println!("SKIPPED: no right to make network namespaces (`ip netns add`, as root)");
                return None;
            }
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        Some(machines)
    }

    /// Connects them by a network, in which the machines' addresses are 1 and 2.
    pub(crate) fn cable(&self, name: &str, network: &str, bits: u32) {
        let [a, b] = &self.0;
        ip(&["-n", a, "link", "add", name, "type", "veth", "peer", "name", name, "netns", b]);
        for (at, machine) in self.0.iter().enumerate() {
            let separator = if network.contains(':') { ":" } else { "." };
            let address = format!("{network}{separator}{}/{bits}", at + 1);
            let mut add = vec!["-n", machine, "addr", "add", &address, "dev", name];
            if separator == ":" {
                // Skips duplicate address detection, which takes a second.
                add.push("nodad");
            }
            ip(&add);
            ip(&["-n", machine, "link", "set", name, "up"]);
        }
    }

    /// Cuts the cable: everything sent from now on is lost.
    fn cut(&self, name: &str) {
        ip(&["-n", &self.0[1], "link", "set", name, "down"]);
    }

    /// A program on a machine, whose host name is `node0` or `node1`.
    fn by(&self, machine: usize, program: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(self.arguments(machine, program));
        command
    }

    /// The arguments of `ip` that do so.
    pub(crate) fn arguments(&self, machine: usize, program: &[&str]) -> Vec<String> {
        let host = format!("hostname node{machine} && exec \"$0\" \"$@\"");
        let namespace = &self.0[machine];
        let before = ["netns", "exec", namespace, "unshare", "--uts", "sh", "-c", &host];
        before.iter().chain(program).map(|&word| word.to_owned()).collect()
    }

    /// Half of the ranks on each.
    fn ranks(&self, run: &Run, size: usize, address: &str, also: &[(&str, &str)]) -> Ranks {
        let program = env::current_exe().expect("a test is a program").display().to_string();
        Ranks::start(size, |rank| {
            let machine = rank * 2 / size;
            let arguments = self.arguments(machine, &[&program]);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let mut command = with_gpus(run.by("ip", &arguments));
            command.env("TYPED_NCCL_ADDRESS", address).envs(also.iter().copied());
            command
        })
    }

    /// The listening addresses on a machine.
    fn listens_at(&self, machine: usize) -> Vec<String> {
        let listed = self.by(machine, &["ss", "-ltnH"]).output().expect("iproute2 has `ss`");
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let address = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
        text.lines().filter_map(address).collect()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in &self.0 {
            // Its cables are removed with it; it may not exist if creating it failed.
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[track_caller]
fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().expect("there is `ip`");
    assert!(done.status.success(), "ip {arguments:?}: {done:?}");
}
