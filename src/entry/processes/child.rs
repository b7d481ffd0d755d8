//! One process.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

use super::failure_report::{self, ProcessEvent};
use super::output::{Printing, Sink};

/// A process and its output.
pub(super) struct Child {
    rank: usize,
    process: process::Child,
    /// It has ended, and its number may be reused by now.
    ended: bool,
    printing: Vec<Printing>,
}

/// How a process ended.
pub(super) struct Status {
    pub(super) rank: usize,
    process: u32,
    /// As in a shell: 128 plus the signal, if a signal ended it.
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
}

impl Child {
    pub(super) fn start(
        rank: usize,
        mut command: Command,
        sink: &Sink,
        news: &Sender<(usize, ProcessEvent)>,
    ) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        die_with_this_process(&mut command);
        let words = failure_report::give(&mut command)?;
        let mut process = command.spawn()?;
        let pipes = (process.stdout.take(), process.stderr.take());
        let mut child = Self { rank, process, ended: false, printing: Vec::new() };
        let started = child.print(rank, pipes, sink);
        let started = started.and_then(|()| failure_report::hear(rank, words, news.clone()));
        started.inspect_err(|_| child.kill())?;
        Ok(child)
    }

    fn print(
        &mut self,
        rank: usize,
        (out, error): (Option<process::ChildStdout>, Option<process::ChildStderr>),
        sink: &Sink,
    ) -> io::Result<()> {
        if let Some(out) = out {
            self.printing.push(Printing::start(rank, out, sink.out.clone())?);
        }
        if let Some(error) = error {
            self.printing.push(Printing::start(rank, error, sink.error.clone())?);
        }
        Ok(())
    }

    /// How it ended, returned once.
    pub(super) fn look(&mut self) -> Option<Status> {
        if self.ended || self.runs() {
            return None;
        }
        self.send(libc::SIGKILL);
        self.ended = true;
        // The status is lost if another thread took it, or has this program ignore SIGCHLD. Nothing
        // shows then that the rank succeeded.
        let status = self.process.try_wait().ok().flatten();
        Some(self.status(status.unwrap_or_else(|| ExitStatus::from_raw(1 << 8))))
    }

    /// The name of the process.
    pub(super) fn name(&self) -> String {
        name(self.rank, self.process.id())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Checks without reaping: until it is reaped, its number is not reused.
    fn runs(&self) -> bool {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the system writes only to `info`, which is large enough, and keeps no pointer to
        // it.
        let found =
            unsafe { libc::waitid(libc::P_PID, self.process.id(), info.as_mut_ptr(), flags) };
        // SAFETY: `siginfo_t` is plain data and was zeroed.
        let info = unsafe { info.assume_init() };
        found == 0 && info.si_signo == 0
    }

    fn status(&self, status: ExitStatus) -> Status {
        let signal = status.signal();
        let code = status.code().or_else(|| signal.map(|signal| 128 + signal)).unwrap_or(1);
        Status { rank: self.rank, process: self.process.id(), code, signal }
    }

    /// Signals the process and its children.
    pub(super) fn signal(&self, signal: i32) {
        if !self.ended {
            self.send(signal);
        }
    }

    /// Signals its group, whose number is the process's and is not reused until it is reaped.
    fn send(&self, signal: i32) {
        let Ok(group) = libc::pid_t::try_from(self.process.id()) else { return };
        // SAFETY: the system call takes only numbers.
        unsafe { libc::kill(-group, signal) };
    }

    /// Ends the process, if it is running, and the children it left behind.
    pub(super) fn kill(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.send(libc::SIGKILL);
            let _ = self.process.wait();
        }
    }

    /// Waits for its output, but not forever: a process that left its group may hold the pipe.
    pub(super) fn drain(&mut self) {
        self.printing.drain(..).for_each(Printing::end);
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let was = if self.signal.is_some() { "was " } else { "" };
        write!(f, "{} {was}{}", name(self.rank, self.process), self.how())
    }
}

impl Status {
    /// How it ended, behind its name and a comma.
    pub(super) fn how(&self) -> String {
        match self.signal {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("ended with exit code {}", self.code),
        }
    }
}

fn name(rank: usize, process: u32) -> String {
    format!("rank {rank} (process {process})")
}

/// Makes the process end with this one, however this one ends.
#[cfg(target_os = "linux")]
fn die_with_this_process(command: &mut Command) {
    let parent = process::id();
    let bind = move || {
        // SAFETY: the system call takes only numbers.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have ended before.
        if std::os::unix::process::parent_id() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(bind) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_this_process(_: &mut Command) {}
