//! Whether a process has ended. A dead one that nobody has waited for counts as ended.

use std::fs;
use std::io::ErrorKind;

/// A process as its peer sees it.
pub(super) struct Process(Option<Known>);

struct Known {
    pid: i32,
    /// When it started: numbers of processes are used again.
    started: String,
}

impl Process {
    /// A process in a namespace of its own has no number here: it never counts as ended.
    pub(super) fn new(pid: i32) -> Self {
        let state = (pid > 0).then(|| state(pid));
        Self(match state {
            Some(State::Runs { started }) => Some(Known { pid, started }),
            _ => None,
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        let Some(Known { pid, started }) = &self.0 else { return false };
        match state(*pid) {
            State::Runs { started: now } => now != *started,
            State::Ended => true,
            State::Unknown => false,
        }
    }
}

enum State {
    Runs { started: String },
    Ended,
    Unknown,
}

fn state(pid: i32) -> State {
    let line = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(line) => line,
        Err(error) => {
            let procfs = fs::exists("/proc/self/stat").unwrap_or(false);
            let gone = error.kind() == ErrorKind::NotFound && procfs;
            return if gone { State::Ended } else { State::Unknown };
        }
    };
    // The name is in parentheses, and may hold some. After it come the state and 18 other fields,
    // then the start.
    let fields = line.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_ascii_whitespace();
    match (fields.next(), fields.nth(18)) {
        (Some("Z" | "X" | "x"), _) => State::Ended,
        (Some(_), Some(started)) => State::Runs { started: started.to_owned() },
        _ => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::Process;

    #[test]
    fn a_process_ends_when_it_dies_and_not_when_it_is_waited_for() {
        let own = Process::new(std::process::id() as i32);
        assert!(!own.has_ended());
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
        let known = Process::new(child.id() as i32);
        assert!(!known.has_ended());
        child.kill().expect("it runs");
        while !known.has_ended() {
            std::thread::yield_now();
        }
        child.wait().expect("it was killed");
        assert!(known.has_ended());
    }

    #[test]
    fn a_process_of_another_namespace_never_counts_as_ended() {
        assert!(!Process::new(0).has_ended());
        assert!(!Process::new(-1).has_ended());
    }
}
