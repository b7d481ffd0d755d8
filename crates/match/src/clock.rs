//! Vector clocks: what has surely happened before, as counts of events by line.

/// Whether something that should have established an order did not happen.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
enum Loss {
    #[default]
    None,
    /// Calls of one communicator, by its number.
    Of(u64),
    Several,
}

impl Loss {
    fn join(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::None, loss) | (loss, Self::None) => loss,
            (own, other) if own == other => own,
            _ => Self::Several,
        };
    }
}

/// Of each line of events that follow each other, how many came before.
#[derive(Default, Debug)]
pub struct Clock {
    known: Vec<u64>,
    /// Of lines of puts: how many have left. They have arrived for who waits for their signals, and
    /// for who follows in stream order.
    sent: Vec<u64>,
    lost: Loss,
}

impl Clock {
    /// Whether an event of a line came before. Those of a line are counted from 1.
    pub fn knows(&self, line: usize, event: u64) -> bool {
        count(&self.known, line) >= event
    }

    /// An event of a line, and all before it on the line, came before.
    pub fn learn(&mut self, line: usize, event: u64) {
        raise(&mut self.known, line, event);
    }

    /// A put of a line has left.
    pub fn send(&mut self, line: usize, event: u64) {
        raise(&mut self.sent, line, event);
    }

    /// The puts of one line that have left are known to have arrived.
    pub fn arrived(&mut self, line: usize) {
        let sent = count(&self.sent, line);
        self.learn(line, sent);
    }

    /// A call of a communicator did not happen, which should have established an order. What follows
    /// is compared with nothing.
    pub fn lose_order(&mut self, of: u64) {
        self.lost.join(Loss::Of(of));
    }

    /// All ranks of the communicator know by now what its lost calls would have told them.
    pub fn regain_order(&mut self, of: u64) {
        if self.lost == Loss::Of(of) {
            self.lost = Loss::None;
        }
    }

    /// This clock is of no stream, and what follows it anywhere is compared again.
    pub fn forget_losses(&mut self) {
        self.lost = Loss::None;
    }

    /// Whether an order was lost before it.
    pub(crate) fn has_lost_order(&self) -> bool {
        self.lost != Loss::None
    }

    /// Takes over what another place knows.
    pub fn join(&mut self, other: &Self) {
        self.lost.join(other.lost);
        merge(&mut self.known, &other.known);
        merge(&mut self.sent, &other.sent);
    }

    /// The same, and puts that have left have arrived.
    pub fn join_arrived(&mut self, other: &Self) {
        self.lost.join(other.lost);
        merge(&mut self.known, &other.known);
        merge(&mut self.known, &other.sent);
    }
}

impl Clone for Clock {
    fn clone(&self) -> Self {
        Self { known: self.known.clone(), sent: self.sent.clone(), lost: self.lost }
    }

    /// Keeps the lists' memory.
    fn clone_from(&mut self, from: &Self) {
        self.known.clone_from(&from.known);
        self.sent.clone_from(&from.sent);
        self.lost = from.lost;
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
