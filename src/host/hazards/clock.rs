//! Clocks: what has surely happened before, as counts of events by line.

use crate::lock::Mutex;

/// The line of the host's own reads and writes, of all threads.
pub(super) const HOST: usize = 0;

/// Of each line, how many events came before.
#[derive(Default, Debug)]
pub(in crate::host) struct Clock {
    known: Vec<u64>,
    /// Of lines of puts: how many have left. They have arrived for who waits for their signals, and
    /// for who follows in stream order.
    sent: Vec<u64>,
}

impl Clock {
    pub(super) fn knows(&self, line: usize, event: u64) -> bool {
        count(&self.known, line) >= event
    }

    pub(super) fn learn(&mut self, line: usize, event: u64) {
        raise(&mut self.known, line, event);
    }

    pub(super) fn send(&mut self, line: usize, event: u64) {
        raise(&mut self.sent, line, event);
    }

    /// The puts of one line that have left are known to have arrived.
    pub(super) fn arrived(&mut self, line: usize) {
        let sent = count(&self.sent, line);
        self.learn(line, sent);
    }

    /// Takes over what another place knows.
    pub(super) fn join(&mut self, other: &Self) {
        merge(&mut self.known, &other.known);
        merge(&mut self.sent, &other.sent);
    }

    /// The same, and puts that have left have arrived.
    pub(super) fn join_arrived(&mut self, other: &Self) {
        merge(&mut self.known, &other.known);
        merge(&mut self.known, &other.sent);
    }
}

impl Clone for Clock {
    fn clone(&self) -> Self {
        Self { known: self.known.clone(), sent: self.sent.clone() }
    }

    /// Keeps the lists' memory.
    fn clone_from(&mut self, from: &Self) {
        self.known.clone_from(&from.known);
        self.sent.clone_from(&from.sent);
    }
}

fn count(counts: &[u64], line: usize) -> u64 {
    counts.get(line).copied().unwrap_or(0)
}

fn raise(counts: &mut Vec<u64>, line: usize, to: u64) {
    if counts.len() <= line {
        counts.resize(line + 1, 0);
    }
    counts[line] = counts[line].max(to);
}

fn merge(counts: &mut Vec<u64>, others: &[u64]) {
    if counts.len() < others.len() {
        counts.resize(others.len(), 0);
    }
    for (own, other) in counts.iter_mut().zip(others) {
        *own = (*own).max(*other);
    }
}

/// A line of events that follow each other: a stream's, or one rank's puts to another. Its place in the
/// clocks is used again when it is over, by a line that counts on: what came before the first is then
/// taken to be before the second, which hides mistakes and invents none.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: usize,
    /// The last event.
    pub(super) last: u64,
}

/// Lines that are over, with their last events, and how many there ever were at once.
struct Lines {
    over: Vec<(usize, u64)>,
    many: usize,
}

static LINES: Mutex<Lines> = Mutex::new(Lines { over: Vec::new(), many: HOST + 1 });

impl Line {
    pub(super) fn open() -> Self {
        let mut lines = LINES.lock();
        if let Some((id, last)) = lines.over.pop() {
            return Self { id, last };
        }
        lines.many += 1;
        Self { id: lines.many - 1, last: 0 }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        LINES.lock().over.push((self.id, self.last));
    }
}
