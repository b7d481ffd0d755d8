//! Flight records have PyTorch's form and say what happened.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::{Folder, Test, end, program, run};

pub(crate) const TESTS: &[Test] = &[
    ("a_mismatch_is_dumped_by_both_ranks", mismatch),
    ("a_death_is_dumped_by_those_who_live", death),
    ("a_child_that_goes_later_keeps_its_parents_record", outlived),
    ("a_signal_dumps_what_a_rank_waits_for", on_a_signal),
    ("the_last_operations_are_kept", kept),
    ("without_being_asked_nothing_is_kept", not_kept),
    ("transfers_end_with_a_coalesced_entry", transfers),
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    ("gpus_dump_the_same", on_gpus),
];

/// A pickle as JSON.
fn pickle(path: &str) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let options = serde_pickle::DeOptions::new();
    serde_pickle::from_slice(&bytes, options).expect("it is a pickle")
}

/// Checks the form that `torchfrtrace` reads, and returns the entries.
fn entries(record: &Value, ranks: &str) -> Vec<Value> {
    assert_eq!(record["version"], "2.10");
    let groups = record["pg_config"].as_object().expect("groups");
    assert!(groups.values().any(|group| group["ranks"] == ranks), "{groups:?}");
    let all = record["entries"].as_array().expect("entries").clone();
    for (number, entry) in all.iter().enumerate() {
        assert_eq!(entry["record_id"], number);
        let group = entry["process_group"][0].as_str().expect("a name");
        assert_eq!(entry["process_group"][1], groups[group]["desc"]);
        assert!(entry["time_created_ns"].as_u64().is_some_and(|at| at > 1 << 60), "{entry}");
        assert_eq!(entry["timeout_ms"], 600_000);
        let frame = &entry["frames"][0];
        let file = frame["filename"].as_str().expect("a file");
        assert!(
            file.ends_with("record/programs.rs") && frame["line"].as_u64() > Some(0),
            "{frame}"
        );
    }
    all
}

/// What a rank of `mismatch` dumps.
fn shows_mismatch(record: &Value, rank: usize) {
    let all = entries(record, "[0, 1]");
    assert_eq!(all.len(), 2, "{all:#?}");
    let len = |entry: &Value| entry["input_sizes"][0][0].as_u64();
    for (entry, turn) in all.iter().zip(1..) {
        assert_eq!(entry["profiling_name"], "nccl:all_reduce");
        assert_eq!((&entry["collective_seq_id"], &entry["is_p2p"]), (&turn.into(), &false.into()));
        assert_eq!(
            (&entry["input_sizes"], &entry["input_dtypes"][0]),
            (&entry["output_sizes"], &"Float".into())
        );
    }
    assert_eq!((&all[0]["state"], &all[0]["retired"]), (&"completed".into(), &true.into()));
    assert_eq!(all[1]["retired"], false, "{}", all[1]);
    assert_eq!((len(&all[0]), len(&all[1])), (Some(8), Some(if rank == 1 { 16 } else { 8 })));
    let status = record["pg_status"].as_object().and_then(|all| all.values().next());
    let status = status.expect("one group");
    assert_eq!(status["last_enqueued_collective"], 2);
    assert_eq!(status["last_completed_collective"], 1);
}

fn mismatch() {
    for ranks in ["host:2", "host:2,processes"] {
        let folder = Folder::new();
        let prefix = folder.path("fr_");
        run(program("mismatch", ranks, &[("TYPED_NCCL_FLIGHT_RECORD", &prefix)]), false);
        (0..2).for_each(|rank| shows_mismatch(&pickle(&format!("{prefix}{rank}")), rank));
        analyse(&folder.0, "Culprit rank 1");
    }
}

/// PyTorch's analyser, where `TYPED_NCCL_TORCHFRTRACE` names it: `.ci/python` does.
fn analyse(folder: &Path, says: &str) {
    let Ok(analyser) = std::env::var("TYPED_NCCL_TORCHFRTRACE") else {
        return println!("SKIPPED: PyTorch's analyser: TYPED_NCCL_TORCHFRTRACE does not name it");
    };
    let mut words = analyser.split(' ');
    let mut command = std::process::Command::new(words.next().expect("a program"));
    let ended = command.args(words).arg("-p").arg("fr_").arg(folder).output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains(says), "{says}: {said}");
}

fn death() {
    let folder = Folder::new();
    let file = folder.path("fr_{rank}.json");
    run(program("dies", "host:3,processes", &[("TYPED_NCCL_FLIGHT_RECORD", &file)]), false);
    for rank in [0, 2] {
        let text = fs::read_to_string(folder.path(&format!("fr_{rank}.json")));
        let record = serde_json::from_str(&text.expect("it is dumped")).expect("it is JSON");
        let all = entries(&record, "[0, 1, 2]");
        // It may hear of the death before its second call.
        let completed = all.iter().filter(|entry| entry["state"] == "completed").count();
        assert!(completed == 1 && all.len() <= 2, "{all:#?}");
    }
    assert!(!Path::new(&folder.path("fr_1.json")).exists(), "the dead rank dumps nothing");
}

fn outlived() {
    let folder = Folder::new();
    let file = folder.path("fr_{rank}.json");
    run(program("outlived", "host:3,processes", &[("TYPED_NCCL_FLIGHT_RECORD", &file)]), false);
    for rank in [0, 2] {
        let text = fs::read_to_string(folder.path(&format!("fr_{rank}.json")));
        let record = serde_json::from_str(&text.expect("it is dumped")).expect("it is JSON");
        let of = |entry: &Value| entry["process_group"][1].as_str().map(str::to_owned);
        let all: Vec<_> = entries(&record, "[0, 1, 2]").iter().filter_map(of).collect();
        assert_eq!(all, ["World", "Parity"], "{record:#}");
    }
    let left: Vec<_> = fs::read_dir(&folder.0).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

fn on_a_signal() {
    let folder = Folder::new();
    let (prefix, until) = (folder.path("fr_"), folder.path("until"));
    let set = [("TYPED_NCCL_FLIGHT_RECORD", prefix.as_str()), ("UNTIL", &until)];
    let mut child = program("late", "host:2", &set).spawn().expect("it starts");
    let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it says so");
    assert_eq!(line, "late\n");
    let id = i32::try_from(child.id()).expect("a process");
    let started = Instant::now();
    loop {
        // SAFETY: the child was not waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(id, libc::SIGUSR2) }, 0);
        thread::sleep(Duration::from_millis(50));
        // Rank 0 may not have called yet.
        let record = fs::read(format!("{prefix}0")).ok();
        let record = record.and_then(|bytes| {
            serde_pickle::from_slice::<Value>(&bytes, serde_pickle::DeOptions::new()).ok()
        });
        if let Some(record) = record
            && let [only] = entries(&record, "[0, 1]").as_slice()
            && only["state"] == "started"
        {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no record of rank 0");
    }
    // Rank 1 has called nothing: PyTorch's analyser misses it.
    while fs::metadata(format!("{prefix}1")).map_or(0, |file| file.len()) == 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "no record of rank 1");
        thread::sleep(Duration::from_millis(5));
    }
    analyse(&folder.0, "missing ranks: {1}");
    fs::write(&until, "").expect("it is written");
    assert!(end(child).status.success());
}

fn kept() {
    let ended = end(program("kept", "host:2", &[]).spawn().expect("it starts"));
    assert!(ended.status.success(), "{ended:?}");
    let record = serde_json::from_slice(&ended.stdout).expect("it is JSON");
    let all = entries(&record, "[0, 1]");
    let turns: Vec<_> = all.iter().map(|entry| entry["collective_seq_id"].as_u64()).collect();
    assert_eq!(turns, [7, 8, 9, 10].map(Some));
    for entry in all {
        assert_eq!(entry["state"], "completed");
        assert!(entry["duration_ms"].as_f64().is_some_and(|took| took >= 0.0), "{entry}");
        let at = |name: &str| entry[name].as_u64().expect("a time");
        let (from, to) = (at("time_discovered_started_ns"), at("time_discovered_completed_ns"));
        assert!(from <= to, "{entry}");
    }
}

fn not_kept() {
    run(program("not_kept", "host:2", &[]), true);
}

fn transfers() {
    let folder = Folder::new();
    let file = folder.path("fr_{rank}.json");
    run(program("transfers", "host:2", &[("TYPED_NCCL_FLIGHT_RECORD", &file)]), true);
    for rank in 0..2_u64 {
        let text = fs::read_to_string(folder.path(&format!("fr_{rank}.json"))).expect("a record");
        let record = serde_json::from_str(&text).expect("it is JSON");
        let all = entries(&record, "[0, 1]");
        let names: Vec<_> = all.iter().filter_map(|it| it["profiling_name"].as_str()).collect();
        let other = 1 - rank;
        let (send, recv) =
            (format!("nccl:send {rank}->{other}"), format!("nccl:recv {rank}<-{other}"));
        let group = [send.as_str(), recv.as_str(), "nccl:coalesced"];
        assert_eq!(names, [group, group].concat());
        let turns: Vec<_> = all.iter().filter_map(|it| it["p2p_seq_id"].as_u64()).collect();
        assert!(turns[0] == turns[2] && turns[2] < turns[3] && turns[3] == turns[5], "{turns:?}");
        assert!(all.iter().all(|entry| entry["is_p2p"] == true));
    }
}

#[cfg(all(feature = "cuda", target_os = "linux"))]
fn on_gpus() {
    for ranks in ["cuda-threads:2", "cuda:2"] {
        let (folder, stage) = (Folder::new(), crate::stage::Stage::new());
        let prefix = folder.path("fr_");
        let mut command = program("mismatch", ranks, &[("TYPED_NCCL_FLIGHT_RECORD", &prefix)]);
        stage.set(&mut command, 2);
        run(command, false);
        (0..2).for_each(|rank| shows_mismatch(&pickle(&format!("{prefix}{rank}")), rank));
    }
}
