//! The output of processes, line by line, each line with its rank.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::lock::Mutex;

/// Where lines go: each is written at once.
pub(super) type Lines = Arc<Mutex<dyn Write + Send>>;

/// Destinations of the processes' output.
#[derive(Clone)]
pub(in crate::entry) struct Sink {
    pub(super) out: Lines,
    pub(super) error: Lines,
}

impl Sink {
    /// This process's own output.
    pub(in crate::entry) fn own() -> Self {
        let (out, error) = (Arc::new(Mutex::new(io::stdout())), Arc::new(Mutex::new(io::stderr())));
        Self { out, error }
    }

    /// Prints a line of this process's own.
    pub(super) fn say(&self, line: &str) {
        let mut error = self.error.lock();
        // The reader may be gone.
        let _ = error.write_all(format!("typed-nccl: {line}\n").as_bytes());
    }
}

/// Longer lines are passed on in pieces, which bounds memory.
const LONGEST: usize = 64 << 10;

/// How long to wait for output that a process has left to another.
const LAST: Duration = Duration::from_secs(1);

/// A thread that passes on the output of one process.
pub(super) struct Printing {
    over: Receiver<()>,
}

impl Printing {
    pub(super) fn start(
        rank: usize,
        from: impl Read + Send + 'static,
        to: Lines,
    ) -> io::Result<Self> {
        let (told, over) = channel();
        let run = move || {
            // If nobody reads it any more, the pipe closes and the process notices when it prints.
            let _ = pass_on(&format!("[{rank}] "), from, &to);
            drop(told);
        };
        thread::Builder::new().name(format!("output of rank {rank}")).spawn(run)?;
        Ok(Self { over })
    }

    /// Waits for the end.
    pub(super) fn end(self) {
        let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) =
            self.over.recv_timeout(LAST);
    }
}

fn pass_on(prefix: &str, mut from: impl Read, to: &Lines) -> io::Result<()> {
    let mut buffer = vec![0; 8 << 10];
    let mut line = prefix.as_bytes().to_vec();
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for piece in buffer[..read].split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(piece);
            let is_whole = piece.ends_with(b"\n");
            if is_whole || line.len() >= LONGEST {
                if !is_whole {
                    line.push(b'\n');
                }
                write(to, &line)?;
                line.truncate(prefix.len());
            }
        }
    }
    if line.len() > prefix.len() {
        line.push(b'\n');
        write(to, &line)?;
    }
    Ok(())
}

fn write(to: &Lines, line: &[u8]) -> io::Result<()> {
    let mut to = to.lock();
    to.write_all(line)?;
    to.flush()
}
