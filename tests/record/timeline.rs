//! Timelines are readable, complete and true.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::run::{Folder, Test, program, run};

pub(crate) const TESTS: &[Test] = &[
    ("threads_write_one_timeline", || right("host:3")),
    ("processes_write_one_timeline", || right("host:3,processes")),
    ("a_name_with_a_rank_is_a_file_for_each", a_file_for_each),
    ("a_mismatch_is_an_event_of_both_ranks", mismatch),
    ("deadlocks_and_hazards_are_found_and_told_as_ever", found),
    ("a_killed_rank_leaves_a_readable_file", killed),
    ("no_variable_no_file", nothing),
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    ("gpus_write_the_same", on_gpus),
];

/// The events of a file, which has no end.
fn events(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let all = text.trim_end().trim_end_matches(',');
    serde_json::from_str(&format!("{all}]")).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A slice: its name, begin, end and arguments.
struct Slice {
    name: String,
    tid: u64,
    begin: f64,
    end: Option<f64>,
    event: Value,
}

/// The slices of a rank. Begins and ends of a row nest.
fn slices(events: &[Value], rank: u64) -> Vec<Slice> {
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut all: Vec<Slice> = Vec::new();
    for event in events.iter().filter(|event| event["pid"] == rank) {
        let tid = event["tid"].as_u64().expect("a row");
        let at = || event["ts"].as_f64().expect("a time");
        match event["ph"].as_str() {
            Some("B") => {
                open.entry(tid).or_default().push(all.len());
                let name = event["name"].as_str().expect("a name").to_owned();
                let (begin, end, event) = (at(), None, event.clone());
                all.push(Slice { name, tid, begin, end, event });
            }
            Some("E") => {
                let last = open.get_mut(&tid).and_then(Vec::pop).expect("it began");
                assert!(at() >= all[last].begin, "{event}");
                all[last].end = Some(at());
            }
            _ => {}
        }
    }
    all
}

fn named<'s>(slices: &'s [Slice], name: &'s str, on_stream: bool) -> Vec<&'s Slice> {
    slices.iter().filter(|slice| slice.name == name && (slice.tid > 0) == on_stream).collect()
}

/// What a rank of `right` did, on both backends.
fn shows_right(events: &[Value], rank: u64) {
    let all = slices(events, rank);
    assert!(all.iter().all(|slice| slice.end.is_some()), "rank {rank} left something open");
    let mut first = named(&all, "all_reduce", true);
    first.sort_by(|one, other| one.begin.total_cmp(&other.begin));
    assert_eq!(first.len(), 2, "its own and the child's");
    let args = &first[0].event["args"];
    assert_eq!((&args["count"], &args["dtype"]), (&8.into(), &"f32".into()));
    let at = args["at"].as_str().expect("a place");
    assert!(at.contains("tests/record/programs.rs:") || at.contains("record/programs.rs:"), "{at}");
    let enqueued = args["enqueued_us"].as_f64().expect("a time");
    assert!(enqueued <= first[0].end.expect("it ended"));
    assert_eq!(named(&all, "all_reduce", false).len(), 2, "the host's calls");
    for step in ["scaled_sum: double", "scaled_sum: all_reduce"] {
        let step = named(&all, step, true);
        assert_eq!(step.len(), 1);
        assert_eq!(step[0].event["args"]["plan"], "scaled_sum");
        let at = step[0].event["args"]["at"].as_str().expect("a place");
        assert!(at.contains("record/programs.rs:1"), "the plan's line: {at}");
    }
    let own = ["attend", "launch", "copy"].map(|name| named(&all, name, true));
    assert!(own.iter().all(|slices| slices.len() == 1), "once each: the step's launch is the step");
    let [attend, launch, copy] = own.map(|slices| (slices[0].tid, slices[0].begin));
    assert!(attend < launch && launch < copy, "in stream order: {attend:?}, {launch:?}, {copy:?}");
    assert!(attend.0 == copy.0 && attend.0 != first[0].tid, "on the compute stream");
    // Streams have names that a reader of the program knows.
    let names: BTreeMap<u64, &str> = events
        .iter()
        .filter(|event| event["name"] == "thread_name" && event["pid"] == rank)
        .map(|event| (event["tid"].as_u64().expect("a row"), &event["args"]["name"]))
        .map(|(tid, name)| (tid, name.as_str().expect("a name")))
        .collect();
    assert_eq!((names[&0], names[&attend.0]), ("host", "compute"), "{names:?}");
    assert_eq!(names[&first[0].tid], "stream of World", "{names:?}");
    assert_eq!(names[&first[1].tid], "stream of Parity", "{names:?}");
    for name in ["stream 1", "stream 2", "both: other"] {
        assert_eq!(names.values().filter(|known| **known == name).count(), 1, "{names:?}");
    }
    let waits: Vec<_> = all.iter().filter(|slice| slice.event["cname"] == "terrible").collect();
    for wait in ["sync", "finish", "split"] {
        assert!(waits.iter().any(|slice| slice.name == wait && slice.tid == 0), "no {wait}");
    }
}

fn right(ranks: &str) {
    let folder = Folder::new();
    let file = folder.path("trace.json");
    // Of an earlier run.
    fs::write(&file, "old").expect("it is written");
    run(program("right", ranks, &[("TYPED_NCCL_TRACE", &file)]), true);
    let events = events(&file);
    (0..3).for_each(|rank| shows_right(&events, rank));
    let names: Vec<_> = events.iter().filter(|event| event["name"] == "process_name").collect();
    for rank in 0..3_u64 {
        let name = names.iter().find(|event| event["pid"] == rank).expect("it has a name");
        let name = name["args"]["name"].as_str().expect("a name");
        assert!(name.starts_with(&format!("rank {rank} (")), "{name}");
    }
    // All ranks are on one clock: the first collective ends nowhere before it began elsewhere.
    let first = |rank| {
        let all = slices(&events, rank);
        let own = named(&all, "all_reduce", true);
        let first = own.into_iter().min_by(|one, other| one.begin.total_cmp(&other.begin));
        first.map(|slice| (slice.begin, slice.end.expect("it ended"))).expect("it is there")
    };
    let all: Vec<(f64, f64)> = (0..3).map(first).collect();
    let latest = all.iter().map(|(begin, _)| *begin).fold(0.0, f64::max);
    assert!(all.iter().all(|(_, end)| *end >= latest), "{all:?}");
}

fn a_file_for_each() {
    let folder = Folder::new();
    let file = folder.path("new/trace-{rank}.json");
    run(program("right", "host:2,processes", &[("TYPED_NCCL_TRACE", &file)]), true);
    for rank in 0..2 {
        let events = events(&folder.path(&format!("new/trace-{rank}.json")));
        shows_right(&events, rank);
        assert!(events.iter().all(|event| event["pid"] == rank));
    }
}

fn mismatch() {
    for ranks in ["host:2", "host:2,processes"] {
        let folder = Folder::new();
        let file = folder.path("trace.json");
        run(program("mismatch", ranks, &[("TYPED_NCCL_TRACE", &file)]), false);
        let events = events(&file);
        for rank in 0..2_u64 {
            let of = |event: &&Value| event["name"] == "Mismatch" && event["pid"] == rank;
            let event = events.iter().find(of).unwrap_or_else(|| panic!("{events:#?}"));
            assert_eq!(event["ph"], "i");
            let text = event["args"]["text"].as_str().expect("a text");
            assert!(text.contains("16 f32") && text.contains("8 f32"), "{text}");
        }
    }
}

fn found() {
    for (name, kind) in [("deadlock", "Deadlock"), ("hazard", "Hazard")] {
        if kind == "Hazard" && !cfg!(debug_assertions) {
            continue;
        }
        let folder = Folder::new();
        let (file, prefix) = (folder.path("trace.json"), folder.path("fr_"));
        let set = [("TYPED_NCCL_TRACE", file.as_str()), ("TYPED_NCCL_FLIGHT_RECORD", &prefix)];
        run(program(name, "host:2", &set), false);
        let events = events(&file);
        for rank in 0..2_u64 {
            let is_it = |event: &Value| event["name"] == kind && event["pid"] == rank;
            assert!(events.iter().any(is_it), "rank {rank}, {kind}: {events:#?}");
            assert!(
                fs::exists(format!("{prefix}{rank}")).expect("a folder"),
                "rank {rank}: {kind}"
            );
        }
    }
}

fn killed() {
    let folder = Folder::new();
    let file = folder.path("trace.json");
    run(program("dies", "host:3,processes", &[("TYPED_NCCL_TRACE", &file)]), false);
    let events = events(&file);
    for rank in [0, 2] {
        let died = |event: &&Value| event["name"] == "PeerFailed" && event["pid"] == rank;
        assert!(events.iter().any(|event| died(&event)), "rank {rank}: {events:#?}");
        // It may hear of the death before its second call.
        assert!(!named(&slices(&events, rank), "all_reduce", false).is_empty());
    }
    let dead = slices(&events, 1);
    assert_eq!(named(&dead, "all_reduce", false).len(), 1, "what it called before");
    assert!(dead.iter().any(|slice| slice.name == "sync" && slice.end.is_some()));
}

fn nothing() {
    let folder = Folder::new();
    let mut command = program("right", "host:2", &[]);
    command.current_dir(&folder.0);
    run(command, true);
    assert_eq!(fs::read_dir(&folder.0).expect("it is there").count(), 0);
}

#[cfg(all(feature = "cuda", target_os = "linux"))]
fn on_gpus() {
    for ranks in ["cuda-threads:3", "cuda:3"] {
        let (folder, stage) = (Folder::new(), crate::stage::Stage::new());
        let file = folder.path("trace.json");
        let mut command = program("right", ranks, &[("TYPED_NCCL_TRACE", &file)]);
        stage.set(&mut command, 3);
        run(command, true);
        let events = events(&file);
        (0..3).for_each(|rank| shows_right(&events, rank));
    }
}
