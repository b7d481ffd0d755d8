//! The lines of events that clocks count.

use crate::lock::Mutex;

/// The line of the host's own accesses, of all threads.
pub(super) const HOST: usize = 0;

/// A line of successive events: a stream's, or one rank's puts to another. When it is over, a new
/// line reuses its place in the clocks and continues its numbering. Events known to precede the old
/// line's then also count as preceding the new line's, which hides mistakes and invents none.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: usize,
    /// The last event.
    pub(super) last: u64,
}

/// Lines that are over, with their last events, and the largest number of lines at once.
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
