//! Checks that need more than the compiler: `cargo run -p xtask -- <check>`.
//!
//! * `cost`: what a typed call costs beside a direct one, in instructions.
//! * `sanitize [address|thread]`: the test suite under AddressSanitizer and ThreadSanitizer.
//!
//! Exits with 0 when the check holds, 1 when it does not, 2 when it could not be made.

mod cost;
mod sanitize;

use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Output};

const USAGE: &str = "usage: cargo run -p xtask -- cost | sanitize [address|thread]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["cost"] => cost::run(),
        ["sanitize"] => sanitize::run(&sanitize::ALL),
        ["sanitize", "address"] => sanitize::run(&[sanitize::ADDRESS]),
        ["sanitize", "thread"] => sanitize::run(&[sanitize::THREAD]),
        _ => Err(Failure::NotMade(USAGE.to_owned())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            match failure {
                Failure::Broken(_) => ExitCode::from(1),
                Failure::NotMade(_) => ExitCode::from(2),
            }
        }
    }
}

/// Why a check did not succeed.
enum Failure {
    /// It was made, and does not hold.
    Broken(String),
    /// It could not be made.
    NotMade(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(what) => write!(f, "FAILED: {what}"),
            Self::NotMade(why) => write!(f, "NOT CHECKED: {why}"),
        }
    }
}

type Check<T = ()> = Result<T, Failure>;

/// The cargo that runs this.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// The workspace.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Runs a tool and takes its output; `remedy` says how to get the tool.
fn output(command: &mut Command, remedy: &str) -> Check<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| Err(Failure::NotMade(format!("{program} {why}")));
    match command.output() {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            failed(format!("gave {}:\n{said}", output.status))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            failed(format!("is not installed: {remedy}"))
        }
        Err(error) => failed(format!("does not start: {error}")),
    }
}
