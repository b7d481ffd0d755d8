//! `typed-nccl-verify FILE..`: checks schedules of MSCCL and MSCCL++.
//!
//! Exits with 0 if all are right, 1 if something is wrong with one, 2 if one cannot be read.

use std::io::Write as _;
use std::process::ExitCode;

use typed_nccl_verify::{Verdict, verdict};

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: typed-nccl-verify FILE.. (MSCCL's XML, MSCCL++'s JSON)");
        return ExitCode::from(2);
    }
    let (verdict, text) = verdict(files);
    // A reader that has seen enough may close the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    match verdict {
        Verdict::Right => ExitCode::SUCCESS,
        Verdict::Wrong => ExitCode::from(1),
        Verdict::Unreadable => ExitCode::from(2),
    }
}
