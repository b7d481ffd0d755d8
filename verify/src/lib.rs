//! Checks communication schedules that other tools wrote: MSCCL's XML and MSCCL++'s JSON.
//!
//! [`verify`] reads a file for all of its ranks, plays it, and says whether blocks wait for each
//! other for ever, whether two uses of memory have no order, and whether every rank ends with what
//! the collective is to give it. Problems are the stories of
//! [`typed_nccl_plan`](typed_nccl_plan::verdict): who, in which block and step, waits for whom.
//!
//! A file may hold anything: what it is too large for is refused, and nothing panics.
//!
//! What is not looked at: how fast it is, and reductions other than as sums, in which each rank's
//! part has to be once.

#![forbid(unsafe_code)]

mod cells;
mod limits;
mod lines;
mod msccl;
mod mscclpp;
mod program;
mod refusal;
mod report;
mod run;
mod unreadable;

pub use program::{Collective, Format};
pub use report::{Report, Verdict, verdict};
pub use unreadable::{Reason, Unreadable};

use std::path::Path;

use typed_nccl_plan::ir::Location;

/// Reads a schedule and checks it. `file` is the name that messages use.
///
/// # Errors
///
/// What makes it unreadable; what is wrong with a schedule that can be read is in the report.
pub fn verify(bytes: &[u8], file: &str) -> Result<Report, Unreadable> {
    let named = |error: Unreadable| Unreadable { file: file.to_owned(), ..error };
    let program = read(bytes).map_err(named)?;
    Ok(Report::of(&program, file))
}

/// The same, of a file.
///
/// # Errors
///
/// If it cannot be opened, and as [`verify`].
pub fn verify_file(path: &Path) -> Result<Report, Unreadable> {
    let file = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => verify(&bytes, &file),
        Err(error) => {
            let reason = Reason::NotOpened(error.to_string());
            Err(Unreadable { file, at: Location::default(), reason })
        }
    }
}

fn read(bytes: &[u8]) -> Result<program::Program, Unreadable> {
    if bytes.len() > limits::BYTES {
        return Err(Unreadable::too_large("bytes", limits::BYTES));
    }
    let no_text = |_| Unreadable::new(Location::default(), Reason::NotText);
    let text = std::str::from_utf8(bytes).map_err(no_text)?;
    match text.trim_start().bytes().next() {
        Some(b'<') => msccl::read(text),
        Some(b'{') => mscclpp::read(text),
        _ => Err(Unreadable::new(Location::default(), Reason::Neither)),
    }
}
