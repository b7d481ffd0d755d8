//! `cargo test -p perf`: every operation in every form on the host, what is written, and how it
//! ends.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};

use clap::{Parser, ValueEnum};
use serde_json::Value;

use crate::options::{Elements, Operation, Options, Reduction};
use crate::run;

/// Marks a process that a test started.
const CHILD: &str = "TYPED_NCCL_PERF_CHILD";

pub(crate) fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

pub(crate) fn all() -> ExitCode {
    every_operation_in_every_form();
    every_type_and_reduction();
    numbers_and_a_picture_are_written();
    ranks_can_be_processes();
    wrong_data_is_a_failure();
    what_cannot_be_is_said();
    println!("perf: 6 tests passed");
    ExitCode::SUCCESS
}

fn options(words: &str) -> Options {
    let small = "--min 1K --max 8K --factor 8 --iters 2 --warmup 1 --check";
    let words = ["perf"].into_iter().chain(small.split(' ')).chain(words.split_whitespace());
    Options::parse_from(words)
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().expect("it is one").get_name().to_owned()
}

const FORMS: [&str; 9] = [
    "",
    "--in-place",
    "--window",
    "--window --in-place",
    "--graph",
    "--graph --window --in-place",
    "--plan",
    "--plan --window",
    "--plan --graph",
];

fn every_operation_in_every_form() {
    for op in Operation::value_variants() {
        for form in FORMS {
            let options = options(&format!("--op {} --ranks 3 {form}", name(*op)));
            if options.fault().is_some() {
                assert!(form.contains("--in-place"), "{options:?}");
                continue;
            }
            run(&options).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        }
    }
}

fn every_type_and_reduction() {
    for dtype in Elements::value_variants() {
        for redop in Reduction::value_variants() {
            let words =
                format!("--ranks 2 --dtype {} --redop {} --max 1K", name(*dtype), name(*redop));
            let options = options(&words);
            if options.fault().is_none() {
                run(&options).unwrap_or_else(|error| panic!("{options:?}: {error}"));
            }
        }
    }
}

fn file(name: &str) -> PathBuf {
    env::temp_dir().join(format!("typed-nccl-perf-{}-{name}", std::process::id()))
}

/// Runs the program as a user would, with `TYPED_NCCL`; returns its output.
fn perf(asked: &str, words: &str, json: &PathBuf) -> (Output, Value) {
    let mut perf = Command::new(env::current_exe().expect("this is a program"));
    perf.env(CHILD, "1")
        .env("TYPED_NCCL", asked)
        .args(words.split_whitespace())
        .arg("--json")
        .arg(json);
    let output = perf.output().expect("it starts");
    let text = fs::read_to_string(json).unwrap_or_default();
    let _ = fs::remove_file(json);
    (output, serde_json::from_str(&text).unwrap_or_default())
}

fn numbers_and_a_picture_are_written() {
    let picture = file("found.svg");
    let words = format!(
        "--op all_gather --ranks 2 --min 1K --max 16K --iters 2 --check --plot {}",
        picture.display()
    );
    let (output, json) = perf("", &words, &file("found.json"));
    assert!(output.status.success(), "{output:?}");
    let results = json["results"].as_array().expect("a list");
    let sizes: Vec<_> = results.iter().map(|found| found["bytes"].as_u64()).collect();
    assert_eq!(sizes, [Some(1 << 10), Some(4 << 10), Some(16 << 10)]);
    for found in results {
        let number = |name: &str| found[name].as_f64().expect("a number");
        // Each rank sends half, and the bus carries half.
        assert_eq!(number("bytes"), 2.0 * 4.0 * number("count"));
        let algbw = number("bytes") / number("time_us") / 1e3;
        assert!((number("algbw_gb_s") / algbw - 1.0).abs() < 1e-9);
        assert!((number("busbw_gb_s") / algbw - 0.5).abs() < 1e-9);
        assert_eq!(found["wrong"], 0);
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("algbw") && said.contains("16384"), "{said}");
    let drawn = fs::read_to_string(&picture).expect("a picture");
    let _ = fs::remove_file(&picture);
    assert!(drawn.starts_with("<svg") && drawn.contains("bus bandwidth"), "{drawn}");
}

/// Rank 0 alone prints and writes.
fn ranks_can_be_processes() {
    let words = "--op all_gather --min 1K --max 4K --iters 2 --check";
    let (output, json) = perf("host:3,processes", words, &file("processes.json"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&json["ranks"], &json["results"][1]["wrong"]), (&3.into(), &0.into()));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("all_gather: 3 ranks on host"), "{said}");
    assert!(said.lines().all(|line| line.starts_with("[0]")), "{said}");
}

fn wrong_data_is_a_failure() {
    let words = "--ranks 2 --min 1K --max 1K --iters 1 --check --spoil";
    let (output, json) = perf("", words, &file("wrong.json"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(json["results"][0]["wrong"], 2);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("2 elements are wrong"), "{said}");
}

fn what_cannot_be_is_said() {
    for (words, part) in [
        ("--op sendrecv --in-place", "leave --in-place out"),
        ("--op put-signal --in-place", "leave --in-place out"),
        ("--dtype i32 --redop avg", "floating-point"),
        ("--min 2K --max 1K", "at least one rank and one size"),
        ("--min 3X", "no size such as 4K"),
        ("--plan --redop max", "--redop sum"),
    ] {
        let (output, _) = perf("", words, &file("none.json"));
        assert!(!output.status.success(), "{words}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(part), "{words}: {said}");
    }
}
