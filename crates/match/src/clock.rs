//! Vector clocks: what has surely happened before, as counts of events by line.

/// Of each line of events that follow each other, how many came before.
#[derive(Default, Debug)]
pub struct Clock {
    known: Vec<u64>,
    /// Of lines of puts: how many have left. They have arrived for who waits for their signals, and
    /// for who follows in stream order.
    sent: Vec<u64>,
    /// Whether something before it should have established an order, and did not happen.
    lost: bool,
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

    /// Something that should have established an order did not happen. What follows is compared
    /// with nothing.
    pub fn lose_order(&mut self) {
        self.lost = true;
    }

    /// Whoever has this clock knows what did not happen.
    pub fn forget_loss(&mut self) {
        self.lost = false;
    }

    /// Whether an order was lost before it.
    pub(crate) fn has_lost_order(&self) -> bool {
        self.lost
    }

    /// Takes over what another place knows.
    pub fn join(&mut self, other: &Self) {
        self.lost |= other.lost;
        merge(&mut self.known, &other.known);
        merge(&mut self.sent, &other.sent);
    }

    /// The same, and puts that have left have arrived.
    pub fn join_arrived(&mut self, other: &Self) {
        self.lost |= other.lost;
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
