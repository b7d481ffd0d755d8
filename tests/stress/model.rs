//! The right contents of every store of every rank.

use super::step::{BUFFERS, Collective, InPlace, Part, Round, STORES, Shape, Step, Transfer};

#[derive(Clone)]
pub(crate) struct Model {
    shape: Shape,
    /// By rank and store.
    pub(crate) stores: Vec<Vec<Vec<u32>>>,
}

/// The initial contents of a buffer, also after it is renewed; windows begin with zeros.
pub(crate) fn fresh(shape: Shape, rank: usize, buffer: usize) -> Vec<u32> {
    (0..shape.size()).map(|i| (i * 31 + buffer * 7 + rank) as u32).collect()
}

/// A rank's contribution to a reduction whose blocks differ in length.
pub(crate) fn own(rank: usize, len: usize) -> Vec<u32> {
    (0..len).map(|i| (i * 13 + rank * 101) as u32).collect()
}

pub(crate) fn mixed(from: &[u32], to: &mut [u32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = to.wrapping_add(from.wrapping_mul(3)).wrapping_add(1);
    }
}

pub(crate) fn split(left: &mut [u32], right: &mut [u32]) {
    for (left, right) in left.iter_mut().zip(right) {
        *left = left.wrapping_add(*right);
        *right ^= 5;
    }
}

pub(crate) fn scaled(all: &mut [u32]) {
    for one in all {
        *one = one.wrapping_mul(7);
    }
}

impl Model {
    pub(crate) fn new(shape: Shape) -> Self {
        let store = |rank| {
            move |store| match store < BUFFERS {
                true => fresh(shape, rank, store),
                false => vec![0; shape.size()],
            }
        };
        let rank = |rank| (0..STORES).map(store(rank)).collect();
        Self { shape, stores: (0..shape.ranks).map(rank).collect() }
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Collective { what, .. } => self.collective(what),
            Step::InPlace { what, .. } => self.in_place(what),
            Step::Round(round) => self.round(round),
            Step::AllToAllV { from, to, counts, .. } => {
                for rank in 0..self.shape.ranks {
                    let mut start = 0;
                    for (peer, row) in counts.iter().enumerate() {
                        let sent: usize = row[..rank].iter().sum();
                        self.copy((peer, *from, sent), (rank, *to, start), row[rank]);
                        start += row[rank];
                    }
                }
            }
            Step::AllGatherV { from, to, blocks, .. } => {
                for rank in 0..self.shape.ranks {
                    let mut start = 0;
                    for (peer, &len) in blocks.iter().enumerate() {
                        self.copy((peer, *from, 0), (rank, *to, start), len);
                        start += len;
                    }
                }
            }
            Step::Launch { from, to, .. } => self.each(|_, stores| {
                let source = stores[*from].clone();
                mixed(&source, &mut stores[*to]);
            }),
            Step::LaunchSplit { store, mid, .. } => self.each(|_, stores| {
                let (left, right) = stores[*store].split_at_mut(*mid);
                split(left, right);
            }),
            Step::Away { store } => self.each(|_, stores| scaled(&mut stores[*store])),
            Step::Write { store, value } => {
                self.each(|rank, stores| stores[*store].fill(value ^ rank as u32));
            }
            Step::Renew { buffer } => {
                let shape = self.shape;
                self.each(|rank, stores| stores[*buffer] = fresh(shape, rank, *buffer));
            }
            Step::ReduceScatterV { .. }
            | Step::Read { .. }
            | Step::NewStream { .. }
            | Step::Wait { .. }
            | Step::Sync { .. }
            | Step::Refused { .. } => {}
        }
    }

    fn each(&mut self, change: impl Fn(usize, &mut Vec<Vec<u32>>)) {
        for (rank, stores) in self.stores.iter_mut().enumerate() {
            change(rank, stores);
        }
    }

    /// From one rank, store and start to another.
    fn copy(&mut self, from: (usize, usize, usize), to: (usize, usize, usize), len: usize) {
        let source = self.stores[from.0][from.1][from.2..from.2 + len].to_vec();
        self.stores[to.0][to.1][to.2..to.2 + len].copy_from_slice(&source);
    }

    fn collective(&mut self, what: &Collective) {
        let &Collective { kind, from, to, len } = what;
        let end = from.start + kind.sends(len, self.shape.ranks);
        let sent = |stores: &Vec<Vec<u32>>| stores[from.store][from.start..end].to_vec();
        let sent: Vec<_> = self.stores.iter().map(sent).collect();
        self.each(|rank, stores| {
            if let Some(received) = kind.received(&sent, len, rank) {
                stores[to.store][to.start..][..received.len()].copy_from_slice(&received);
            }
        });
    }

    fn in_place(&mut self, what: &InPlace) {
        let (at, ranks) = (what.at, self.shape.ranks);
        let sent = |(rank, stores): (usize, &Vec<Vec<u32>>)| {
            stores[at.store][what.sent(rank, ranks)].to_vec()
        };
        let sent: Vec<_> = self.stores.iter().enumerate().map(sent).collect();
        self.each(|rank, stores| {
            if let Some(received) = what.kind.received(&sent, what.len, rank) {
                stores[at.store][what.written(rank, ranks)].copy_from_slice(&received);
            }
        });
    }

    fn round(&mut self, round: &Round) {
        for part in round.parts.iter().filter(|part| round.happens(part)) {
            match part {
                Part::Collective(what) => self.collective(what),
                Part::InPlace(what) => self.in_place(what),
                &Part::Transfer(Transfer { sender, receiver, from, to, len }) => {
                    self.copy(
                        (sender, from.store, from.start),
                        (receiver, to.store, to.start),
                        len,
                    );
                }
                Part::Put(put) => self.copy(
                    (put.writer, put.from.store, put.from.start),
                    (put.target, put.to.store, put.to.start),
                    put.len,
                ),
                Part::Signal { .. } => {}
            }
        }
    }
}

impl Round {
    /// Whether a part happens although a rank refused its group.
    fn happens(&self, part: &Part) -> bool {
        let Some(by) = self.refused_by else { return true };
        match part {
            Part::Collective(_) | Part::InPlace(_) => false,
            Part::Transfer(transfer) => transfer.sender != by && transfer.receiver != by,
            Part::Put(put) => put.writer != by,
            Part::Signal { from, .. } => *from != by,
        }
    }

    /// Whether `rank` made an operation whose other end was refused.
    pub(crate) fn tells(&self, rank: usize) -> bool {
        self.parts.iter().filter(|part| !self.happens(part)).any(|part| match part {
            Part::Collective(_) | Part::InPlace(_) => true,
            Part::Transfer(transfer) => [transfer.sender, transfer.receiver].contains(&rank),
            Part::Put(put) => put.target == rank,
            Part::Signal { to, .. } => *to == rank,
        })
    }
}
