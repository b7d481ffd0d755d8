//! `typed-nccl doctor` checks this machine; `typed-nccl merge` merges timelines.

use std::env;
use std::process::ExitCode;

use typed_nccl_doctor::{Machine, check, json, merge, page, text};

const USAGE: &str =
    "usage: typed-nccl doctor [--json]            checks this machine, in the environment of a job
       typed-nccl merge TRACE.json..         prints timelines of several ranks or machines as one
       typed-nccl merge --html TRACE.json..  prints a page that shows it in any browser";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["doctor"] => doctor(text),
        ["doctor", "--json"] => doctor(json),
        ["merge", "--html", files @ ..] if !files.is_empty() => merging(page(files)),
        ["merge", files @ ..] if !files.is_empty() && files != ["--html"] => merging(merge(files)),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn merging(merged: Result<String, String>) -> ExitCode {
    match merged {
        Ok(merged) => {
            println!("{merged}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("typed-nccl merge: {why}");
            ExitCode::FAILURE
        }
    }
}

fn doctor(print: fn(&[typed_nccl_doctor::Finding]) -> String) -> ExitCode {
    let findings = check(&Machine::here());
    print!("{}", print(&findings));
    let is_well = findings.iter().all(|finding| !finding.is_problem());
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
