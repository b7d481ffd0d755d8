//! Each finding, on made-up machines and in the program with a made-up environment.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use typed_nccl_doctor::{Finding, Gpu, Interface, Level, Library, Machine, check, merge, text};

/// A machine without a problem.
fn well() -> Machine {
    let gpu = |index| Gpu {
        index,
        name: "NVIDIA H100".to_owned(),
        is_divided: false,
        mode: "Default".to_owned(),
        driver: "550.54.15".to_owned(),
    };
    Machine {
        gpus: vec![gpu(0), gpu(1)],
        cuda: Some((12, 4)),
        libraries: vec![library("/usr/lib/libnccl.so.2", "2.27.3", (12, 4))],
        loaded: Some(Ok((PathBuf::from("/usr/lib/libnccl.so.2"), "2.27.3".to_owned()))),
        shared_memory: Some(64 << 30),
        locked: Some(u64::MAX),
        interfaces: vec![
            interface("lo", true),
            interface("docker0", true),
            interface("eth0", true),
        ],
        host: "node1".to_owned(),
        addresses: vec!["10.0.0.1".parse().expect("an address")],
        ..Machine::default()
    }
}

fn library(file: &str, release: &str, cuda: (u32, u32)) -> Library {
    let (file, release) = (PathBuf::from(file), Some(release.to_owned()));
    Library { file, by: "the system", release, cuda: Some(cuda) }
}

fn interface(name: &str, is_up: bool) -> Interface {
    let addresses = vec!["10.0.0.1".parse().expect("an address")];
    Interface { name: name.to_owned(), is_up, addresses }
}

/// The problems of a machine that differs from a well one.
fn problems(change: impl FnOnce(&mut Machine)) -> Vec<Finding> {
    let mut machine = well();
    change(&mut machine);
    check(&machine).into_iter().filter(Finding::is_problem).collect()
}

/// The machine has one problem, which says this, and a remedy that says that.
#[track_caller]
fn one(change: impl FnOnce(&mut Machine), says: &str, remedy: &str) {
    let found = problems(change);
    let [only] = found.as_slice() else { panic!("{found:#?}") };
    assert!(only.found.contains(says), "`{says}` is not in: {}", only.found);
    let mends = only.remedy.as_deref().expect("it has a remedy");
    assert!(mends.contains(remedy), "`{remedy}` is not in: {mends}");
}

fn set(machine: &mut Machine, name: &str, value: &str) {
    machine.variables.insert(name.to_owned(), value.to_owned());
}

#[test]
fn a_well_machine_has_no_problem() {
    let found = check(&well());
    assert!(found.iter().all(|finding| !finding.is_problem()), "{found:#?}");
    let text = text(&found);
    assert!(text.contains("2 x NVIDIA H100, driver 550.54.15, CUDA up to 12.4"), "{text}");
    assert!(text.contains("NCCL takes eth0") && text.ends_with("no problem found\n"), "{text}");
}

#[test]
fn gpus_that_do_not_go_together_are_found() {
    one(|it| it.gpus[1].name = "NVIDIA A100".to_owned(), "GPU 1 a NVIDIA A100", "CUDA_VISIBLE");
    one(|it| it.gpus[1].is_divided = true, "GPU 1 is divided", "nvidia-smi -mig 0");
    one(|it| it.gpus[0].mode = "Prohibited".to_owned(), "GPU 0 takes no work", "-c DEFAULT");
    one(|it| it.no_peers = vec![(0, 1)], "none between GPUs 0 and 1", "topo -m");
}

#[test]
fn libraries_that_do_not_go_together_are_found() {
    let other = || library("/v/libnccl.so.2", "2.21.5", (12, 4));
    one(
        |it| it.libraries.push(other()),
        "2.21.5 for CUDA 12.4 in /v/libnccl.so.2",
        "TYPED_NCCL_LIB",
    );
    let newer = || vec![library("/v/libnccl.so.2", "2.28.3", (13, 0))];
    one(|it| it.libraries = newer(), "the driver runs CUDA up to 12.4", "nvidia-nccl-cu12");
    let old = || vec![library("/v/libnccl.so.2", "2.14.3", (11, 7))];
    one(|it| it.libraries = old(), "2.14.3", "2.18");
    one(|it| it.loaded = Some(Err("no NCCL".to_owned())), "no NCCL", "pip install");
}

#[test]
fn limits_that_are_too_low_are_found() {
    one(|it| it.shared_memory = Some(64 << 20), "64 MiB", "--shm-size");
    one(|it| it.shared_memory = None, "there is none", "mount -t tmpfs");
    // Ranks on the CPU do without.
    for bytes in [None, Some(64 << 20)] {
        let found = problems(|it| {
            it.gpus.clear();
            it.shared_memory = bytes;
        });
        assert!(found.iter().all(|finding| finding.check != "/dev/shm"), "{found:#?}");
    }
    let low = |it: &mut Machine| {
        it.locked = Some(8 << 20);
        it.interfaces.push(interface("ib0", false));
    };
    one(low, "8 MiB", "memlock=-1");
    assert!(problems(|it| it.locked = Some(8 << 20)).is_empty(), "there is no such card");
}

#[test]
fn interfaces_that_nobody_reaches_are_found() {
    let chosen = |choice: &'static str| {
        move |it: &mut Machine| {
            it.interfaces.push(interface("eth1", false));
            set(it, "NCCL_SOCKET_IFNAME", choice);
        }
    };
    one(chosen("eth1"), "chooses eth1, which is down", "eth0");
    one(chosen("ens"), "chooses none of lo, docker0, eth0, eth1", "=eth0");
    one(chosen("docker"), "docker0, which other machines cannot reach", "several machines");
    one(chosen("^eth"), "lo, which other machines cannot reach", "eth0");
    for choice in ["eth0", "=eth0", "eth", "^lo,docker"] {
        assert!(problems(chosen(choice)).is_empty(), "{choice}");
    }
    one(
        |it| it.interfaces.push(interface("wlan0", true)),
        "eth0, wlan0",
        "NCCL_SOCKET_IFNAME=eth0",
    );
    one(|it| it.interfaces[2].is_up = false, "none is up", "NCCL_SOCKET_IFNAME=lo");
}

#[test]
fn a_name_of_the_loopback_is_found() {
    let here = |it: &mut Machine| it.addresses = vec!["127.0.1.1".parse().expect("an address")];
    one(here, "node1 is 127.0.1.1", "/etc/hosts");
    one(|it| it.addresses.clear(), "node1 has no address", "MASTER_ADDR");
}

#[test]
fn variables_that_nobody_reads_are_found() {
    one(|it| set(it, "NCCL_SOCKET_IFNAMES", "eth0"), "nobody reads it", "NCCL_SOCKET_IFNAME meant");
    one(|it| set(it, "TYPED_NCCL_ADRESS", "a:1"), "TYPED_NCCL_ADRESS", "TYPED_NCCL_ADDRESS meant");
    one(|it| set(it, "NCCL_P2P_DISABLE", "1"), "NCCL_P2P_DISABLE=1", "unset");
    assert!(problems(|it| set(it, "NCCL_P2P_DISABLE", "0")).is_empty());
    let mut machine = well();
    set(&mut machine, "NCCL_OF_ANOTHER_PLUGIN", "1");
    let notes = check(&machine);
    let is_it = |it: &&Finding| it.found.starts_with("NCCL_OF_ANOTHER_PLUGIN");
    assert_eq!(notes.iter().find(is_it).expect("it is told").level, Level::Note);
}

/// The program, with nothing in its environment but this.
fn program(arguments: &[&str], set: &[(&str, &str)]) -> Output {
    let mut this = Command::new(env!("CARGO_BIN_EXE_typed-nccl"));
    this.args(arguments).env_clear().envs(set.iter().copied());
    this.output().expect("it starts")
}

fn said(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

#[track_caller]
fn says(ended: &Output, parts: &[&str]) {
    let said = said(ended);
    parts.iter().for_each(|part| assert!(said.contains(part), "`{part}` is not in: {said}"));
}

/// A new folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("it can be made");
    folder
}

#[test]
fn a_machine_without_gpus_is_told_what_works() {
    let nowhere = folder("nowhere");
    let ended = program(&["doctor"], &[("PATH", &nowhere.to_string_lossy())]);
    says(&ended, &["GPUs: none here (there is no nvidia-smi)", "TYPED_NCCL=host:8"]);
    says(&ended, &["/dev/shm: ", "memlock: ", "interfaces: ", "host name: ", "launcher: none"]);
    let problems = said(&ended).matches("PROBLEM").count();
    assert_eq!(ended.status.code(), Some(i32::from(problems > 0)));
}

#[test]
fn json_is_an_array_of_findings() {
    let set = [("PATH", ""), ("NCCL_PORTO", "LL"), ("NCCL_GRAPH_MIXING_SUPPORT", "0")];
    let ended = program(&["doctor", "--json"], &set);
    assert_eq!(ended.status.code(), Some(1));
    let all: Vec<Value> = serde_json::from_slice(&ended.stdout).expect("it is JSON");
    let problem = |what: &str| {
        let is_it = |it: &&Value| it["found"].as_str().is_some_and(|it| it.contains(what));
        let found = all.iter().find(is_it).unwrap_or_else(|| panic!("no {what}: {all:#?}"));
        assert_eq!(found["level"], "problem");
        found["remedy"].as_str().expect("a remedy").to_owned()
    };
    assert!(problem("NCCL_PORTO").contains("NCCL_PROTO"));
    // What the library refuses.
    problem("NCCL_GRAPH_MIXING_SUPPORT=0 is set: unset it");
}

#[test]
fn nvidia_smi_in_the_path_is_asked() {
    let folder = folder("smi");
    let smi = folder.join("nvidia-smi");
    let script = "#!/bin/sh\ncase \"$1\" in\n\
        --query*) echo '0, NVIDIA H100, Enabled, Default, 550.54.15'; echo '1, NVIDIA A100, Disabled, Default, 550.54.15';;\n\
        topo) printf ' \\tGPU0\\tGPU1\\n GPU0\\tX\\tCNS\\n GPU1\\tCNS\\tX\\n';;\n\
        *) echo '| Driver Version: 550.54.15   CUDA Version: 12.4 |';;\nesac\n";
    fs::write(&smi, script).expect("it is written");
    fs::set_permissions(&smi, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let ended = program(&["doctor"], &[("PATH", &folder.to_string_lossy())]);
    says(&ended, &["2 x NVIDIA H100", "CUDA up to 12.4", "GPU 1 a NVIDIA A100"]);
    says(&ended, &["GPU 0 is divided", "none between GPUs 0 and 1"]);
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn two_releases_of_nccl_are_found_where_programs_look() {
    let folder = folder("libraries");
    let listed = folder.join("listed");
    let pip = folder.join("venv/lib/python3.12/site-packages/nvidia/nccl/lib");
    for (folder, release) in [(&listed, "2.21.5+cuda12.4"), (&pip, "2.27.3+cuda12.4")] {
        fs::create_dir_all(folder).expect("it can be made");
        let text = format!("\x7fELF\0junk\0NCCL version {release}\0more\0");
        fs::write(folder.join("libnccl.so.2"), text).expect("it is written");
    }
    let (listed, venv) = (listed.to_string_lossy(), folder.join("venv"));
    let set =
        [("PATH", ""), ("LD_LIBRARY_PATH", &*listed), ("VIRTUAL_ENV", &venv.to_string_lossy())];
    let ended = program(&["doctor"], &set);
    says(&ended, &["2.21.5 for CUDA 12.4", "(by LD_LIBRARY_PATH)", "2.27.3", "(by pip)"]);
    says(&ended, &["one NCCL: two releases"]);
}

#[test]
fn what_launchers_say_is_told() {
    let listener = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    let address = format!("127.0.0.1:{port}");
    let job = [
        ("PATH", ""),
        ("TYPED_NCCL_RANK", "0"),
        ("TYPED_NCCL_SIZE", "2"),
        ("TYPED_NCCL_LOCAL_RANK", "0"),
    ];
    let at = |address: &str| {
        let mut all = job.to_vec();
        all.push(("TYPED_NCCL_ADDRESS", address));
        program(&["doctor"], &all)
    };
    let ended = at(&address);
    says(&ended, &["rank 0 of 2", &address, "rank 0 cannot bind port", "ss -ltnp"]);
    assert_eq!(ended.status.code(), Some(1));
    drop(listener);
    says(&at(&address), &[&format!("rank 0 can bind port {port}")]);
    let half = program(&["doctor"], &[("PATH", ""), ("RANK", "0"), ("WORLD_SIZE", "2")]);
    says(&half, &["PROBLEM  launcher", "MASTER_ADDR", "docs/guide/src/jobs.md"]);
}

#[test]
fn timelines_are_merged_by_time() {
    let folder = folder("merge");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("it is written");
        path.to_string_lossy().into_owned()
    };
    let one = file(
        "one",
        "[\n{\"name\":\"process_name\",\"pid\":0},\n{\"ts\":1.5,\"pid\":0},\n{\"ts\":9,\"pid\":0},\n",
    );
    let other = file("other", "[\n{\"ts\":3,\"pid\":1},\n{\"ts\":4,");
    let ended = program(&["merge", &one, &other], &[]);
    let all: Vec<Value> = serde_json::from_slice(&ended.stdout).expect("it is JSON, with its end");
    let times: Vec<_> = all.iter().map(|event| event["ts"].as_f64()).collect();
    assert_eq!(times, [None, Some(1.5), Some(3.0), Some(9.0)]);
    // Merged again, it is the same.
    let merged = file("merged", &said(&ended));
    assert_eq!(merge(&[&merged]).expect("it is a timeline") + "\n", said(&ended));
    let missing = program(&["merge", "nothing.json"], &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(program(&["merge"], &[]).status.code(), Some(2));
}
