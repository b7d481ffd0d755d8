//! Reports the origin of this process's failure to the launcher that started it, as soon as it is
//! known. The system reports how the process ends.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt as _;

use super::cause::Origin;
use super::processes::FailureReport;
use crate::communicator::Failure;
use crate::error::{self, Heard};
use crate::launcher::TELLS;
use crate::lock::Mutex;

struct Tells {
    pipe: File,
    last: FailureReport,
    heard: Heard,
}

static OWN: Mutex<Option<Tells>> = Mutex::new(None);

/// Starts a rank's body: errors that this process is shown count from here on.
pub(super) fn begin() {
    let mut own = OWN.lock();
    if own.is_none() {
        *own = pipe().map(|pipe| Tells { pipe, last: FailureReport::RUNS, heard: Heard::Nothing });
    }
    if let Some(tells) = &mut *own {
        tells.heard = Heard::Nothing;
        tells.say(FailureReport::RUNS);
        error::listen(hear);
    }
}

/// Reports the failure of this rank's body. The process is one rank, so errors shown to any of its
/// threads count.
pub(super) fn fail<E: 'static>(failure: &Failure<'_, E>, rank: usize) {
    let mut own = OWN.lock();
    let Some(tells) = &mut *own else { return };
    let heard = tells.heard;
    let (origin, code) = match failure {
        Failure::Error(error) => (Origin::of_error(*error, rank, heard), ERROR),
        Failure::Panic(_) => (Origin::after(heard), PANIC),
    };
    tells.say(FailureReport { origin, code: Some(code) });
}

/// The exit codes of a Rust `main` that returns an error or panics.
const ERROR: u8 = 1;
const PANIC: u8 = 101;

/// Records that a thread was shown an error of this severity, or that it continues.
fn hear(heard: Heard) {
    let mut own = OWN.lock();
    let Some(tells) = own.as_mut().filter(|tells| tells.last.code.is_none()) else { return };
    tells.heard = match heard {
        Heard::Nothing => Heard::Nothing,
        heard => tells.heard.max(heard),
    };
    tells.say(FailureReport { origin: Origin::after(tells.heard), code: None });
}

impl Tells {
    fn say(&mut self, word: FailureReport) {
        if word != self.last {
            self.last = word;
            // The launcher may be gone.
            let _ = self.pipe.write_all(word.to_string().as_bytes());
        }
    }
}

/// The pipe that this process was started with, if any. Children do not inherit it, but may inherit
/// the variable, so the pipe's number is compared.
fn pipe() -> Option<File> {
    let given = std::env::var(TELLS).ok()?;
    let (given, number) = given.split_once(':')?;
    let given: RawFd = given.parse().ok()?;
    // SAFETY: the system call takes only numbers. If `given` is not an open file, the copy fails;
    // if it is another file, the copy is inspected and closed.
    let copy = unsafe { libc::fcntl(given, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return None;
    }
    // SAFETY: the descriptor was just created, and nothing else owns it.
    let pipe = File::from(unsafe { OwnedFd::from_raw_fd(copy) });
    let number: u64 = number.parse().ok()?;
    if pipe.metadata().ok()?.ino() != number {
        return None;
    }
    // SAFETY: the system call takes only numbers.
    unsafe { libc::fcntl(given, libc::F_SETFD, libc::FD_CLOEXEC) };
    Some(pipe)
}
