//! Building blocks of rough programs, beside the steps of all programs: refusals, panics, copies,
//! splits, and values that are dropped or leaked.

use super::draw::{self, windows};
use super::model::{Model, mixed};
use super::random::Random;
use super::step::{
    At, BUFFERS, COMMS, Collective, InPlace, Part, Put, Round, STORES, STREAMS, Shape, Step,
    Transfer, WINDOWS,
};

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Step(Step),
    /// Reads two stores and changes two others.
    Blend {
        stream: usize,
        reads: [usize; 2],
        writes: [usize; 2],
        panics: Panics,
    },
    /// A launch of up to four operands, of which the last or the one before is bad.
    Refused {
        stream: usize,
        good: Vec<usize>,
        bad: Bad,
        is_last: bool,
    },
    /// New streams read a store, and are dropped.
    Readers {
        store: usize,
        streams: usize,
    },
    /// Pinned memory is copied into a store.
    Upload {
        stream: usize,
        store: usize,
        value: u32,
    },
    /// A store is copied into pinned memory.
    Download {
        stream: usize,
        store: usize,
    },
    /// The fate of the oldest copy.
    Copied(Fate),
    /// A mark and its stream are leaked.
    Forget {
        stream: usize,
    },
    /// A sum among the ranks of a colour, `times` in a row, alternating between two children.
    Child {
        comm: usize,
        store: usize,
        colors: Vec<u32>,
        shared: bool,
        times: usize,
        end: Fate,
    },
    /// A window is closed or dropped for a new one.
    Rewindow {
        comm: usize,
        window: usize,
        closed: bool,
    },
}

/// When a closure panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panics {
    No,
    AtFirst,
    AtLast,
}

/// The fault of an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bad {
    OtherDevice,
    PastTheEnd,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Awaited,
    Dropped,
    Forgotten,
}

/// A resource of an act, which belongs to one thread of a rank at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Id {
    Comm(usize),
    Stream(usize),
    Store(usize),
}

impl Id {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let comms = (0..COMMS).map(Self::Comm);
        comms.chain((0..STREAMS).map(Self::Stream)).chain((0..STORES).map(Self::Store))
    }
}

/// The most elements in a child's sum.
const CHILD: usize = 100;

impl Act {
    /// The part of a store that a child sums.
    pub(crate) fn child_len(shape: Shape) -> usize {
        shape.size().min(CHILD)
    }

    /// All of its resources.
    pub(crate) fn uses(&self) -> Vec<Id> {
        let mut all = match self {
            Self::Step(step) => step_uses(step),
            Self::Blend { stream, reads, writes, .. } => {
                let stores = reads.iter().chain(writes).map(|&store| Id::Store(store));
                stores.chain([Id::Stream(*stream)]).collect()
            }
            Self::Refused { stream, good, .. } => {
                good.iter().map(|&store| Id::Store(store)).chain([Id::Stream(*stream)]).collect()
            }
            Self::Readers { store, .. } => vec![Id::Store(*store)],
            Self::Upload { stream, store, .. } | Self::Download { stream, store } => {
                vec![Id::Stream(*stream), Id::Store(*store)]
            }
            Self::Forget { stream } => vec![Id::Stream(*stream)],
            Self::Copied(_) => vec![],
            Self::Child { comm, store, .. } => vec![Id::Comm(*comm), Id::Store(*store)],
            Self::Rewindow { comm, window, .. } => {
                vec![Id::Comm(*comm), Id::Store(windows(*comm).start + window)]
            }
        };
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A communicator and the stream that it uses; number 0 is its own.
fn on(comm: usize, stream: usize) -> Vec<Id> {
    let other = (stream > 0).then_some(Id::Stream(stream));
    [Id::Comm(comm)].into_iter().chain(other).collect()
}

fn step_uses(step: &Step) -> Vec<Id> {
    let mut uses = match *step {
        Step::Collective { comm, stream, .. }
        | Step::InPlace { comm, stream, .. }
        | Step::Refused { comm, stream } => on(comm, stream),
        Step::Round(ref round) => {
            let mut all = on(round.comm, round.stream);
            all.extend(on(round.comm, round.waiting));
            all
        }
        Step::AllToAllV { comm, .. }
        | Step::AllGatherV { comm, .. }
        | Step::ReduceScatterV { comm, .. } => on(comm, 0),
        Step::Launch { stream, .. }
        | Step::LaunchSplit { stream, .. }
        | Step::NewStream { stream }
        | Step::Sync { stream } => vec![Id::Stream(stream)],
        // Marks are waited for through the first communicator.
        Step::Wait { stream, on } => vec![Id::Stream(stream), Id::Stream(on), Id::Comm(0)],
        Step::Away { .. } | Step::Write { .. } | Step::Read { .. } | Step::Renew { .. } => vec![],
    };
    let stores = match *step {
        Step::Collective { what: Collective { from, to, .. }, .. } => vec![from.store, to.store],
        Step::InPlace { what: InPlace { at, .. }, .. } => vec![at.store],
        Step::Round(ref round) => round_stores(round),
        Step::AllToAllV { from, to, .. }
        | Step::AllGatherV { from, to, .. }
        | Step::Launch { from, to, .. } => vec![from, to],
        Step::LaunchSplit { store, .. }
        | Step::Away { store }
        | Step::Write { store, .. }
        | Step::Read { store } => vec![store],
        Step::Renew { buffer } => vec![buffer],
        Step::Refused { .. } => vec![0],
        Step::ReduceScatterV { .. }
        | Step::NewStream { .. }
        | Step::Wait { .. }
        | Step::Sync { .. } => vec![],
    };
    uses.extend(stores.into_iter().map(Id::Store));
    uses
}

/// Puts and fences use all windows of their communicator.
fn round_stores(round: &Round) -> Vec<usize> {
    let part = |part: &Part| match *part {
        Part::Collective(Collective { from, to, .. })
        | Part::Transfer(Transfer { from, to, .. })
        | Part::Put(Put { from, to, .. }) => vec![from.store, to.store],
        Part::InPlace(InPlace { at: At { store, .. }, .. }) => vec![store],
        Part::Signal { .. } => vec![],
    };
    let windows = windows(round.comm).filter(|_| round.fence.is_some());
    round.parts.iter().flat_map(part).chain(windows).collect()
}

/// The effect of a blend on its stores.
pub(crate) fn blended(reads: [&[u32]; 2], [c, d]: [&mut [u32]; 2]) {
    mixed(reads[0], c);
    for ((d, b), c) in d.iter_mut().zip(reads[1]).zip(c) {
        *d = d.rotate_left(3) ^ b.wrapping_add(*c);
    }
}

/// The data of an upload.
pub(crate) fn uploaded(shape: Shape, rank: usize, value: u32) -> Vec<u32> {
    (0..shape.size()).map(|i| value.wrapping_mul(i as u32 + 1) ^ rank as u32).collect()
}

impl Model {
    /// Plays an act on plain vectors.
    pub(crate) fn act(&mut self, act: &Act, shape: Shape) {
        match *act {
            Act::Step(ref step) => self.step(step),
            Act::Blend { panics: Panics::AtFirst, .. } => {}
            Act::Blend { reads, writes, .. } => {
                for stores in &mut self.stores {
                    let [a, b] = reads.map(|read| stores[read].clone());
                    let [c, d] = stores.get_disjoint_mut(writes).expect("two stores");
                    blended([&a, &b], [c, d]);
                }
            }
            Act::Upload { store, value, .. } => {
                for (rank, stores) in self.stores.iter_mut().enumerate() {
                    stores[store] = uploaded(shape, rank, value);
                }
            }
            Act::Child { store, ref colors, times, .. } => {
                for _ in 0..times {
                    self.sum_by_color(store, colors, Act::child_len(shape));
                }
            }
            Act::Rewindow { comm, window, .. } => {
                for stores in &mut self.stores {
                    stores[windows(comm).start + window].fill(0);
                }
            }
            Act::Refused { .. }
            | Act::Readers { .. }
            | Act::Download { .. }
            | Act::Copied(_)
            | Act::Forget { .. } => {}
        }
    }

    fn sum_by_color(&mut self, store: usize, colors: &[u32], len: usize) {
        let before: Vec<Vec<u32>> =
            self.stores.iter().map(|stores| stores[store][..len].to_vec()).collect();
        for (rank, stores) in self.stores.iter_mut().enumerate() {
            let members = (0..colors.len()).filter(|&other| colors[other] == colors[rank]);
            let members: Vec<usize> = members.collect();
            for (i, sum) in stores[store][..len].iter_mut().enumerate() {
                *sum = members.iter().fold(0, |sum, &other| sum.wrapping_add(before[other][i]));
            }
        }
    }

    /// The contents of every rank's `store`.
    pub(crate) fn everywhere(&self, store: usize) -> Vec<Vec<u32>> {
        self.stores.iter().map(|stores| stores[store].clone()).collect()
    }
}

/// A program's preferences: few kinds of acts on few resources meet more often.
pub(crate) struct Mood {
    kinds: Vec<Own>,
    stores: Vec<usize>,
    streams: usize,
}

/// Kinds of acts that a rank makes by itself.
#[derive(Clone, Copy)]
enum Own {
    Blend,
    Panic,
    Refused,
    Readers,
    Upload,
    Download,
    Copied,
    Forget,
    Launch,
    Split,
    Away,
    Write,
    Read,
    Renew,
    NewStream,
    Wait,
    Sync,
}

const OWN: [Own; 24] = {
    use Own::{
        Away, Blend, Copied, Download, Forget, Launch, NewStream, Panic, Read, Readers, Refused,
        Renew, Split, Sync, Upload, Wait, Write,
    };
    [
        Blend, Blend, Blend, Panic, Refused, Refused, Refused, Readers, Readers, Upload, Download,
        Copied, Copied, Forget, Launch, Launch, Split, Away, Write, Read, Renew, NewStream, Wait,
        Sync,
    ]
};

impl Mood {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let kinds = (0..2 + random.below(9)).map(|_| random.of(&OWN)).chain([Own::Blend]);
        let kinds = kinds.collect();
        let mut stores: Vec<usize> = (0..STORES).collect();
        let few = 4 + random.below(3);
        while stores.len() > few {
            stores.swap_remove(random.below(stores.len()));
        }
        Self { kinds, stores, streams: 1 + random.below(STREAMS) }
    }

    /// Acts that a rank makes by itself, or of all kinds.
    pub(crate) fn acts(
        &self,
        random: &mut Random,
        shape: Shape,
        count: usize,
        alone: bool,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        while acts.len() < count {
            match random.below(24) {
                0 if shape.block < 1000 => acts.extend(self.handed_over(random, shape)),
                _ if alone => acts.push(self.own(random, shape)),
                _ => acts.push(self.any(random, shape)),
            }
        }
        acts
    }

    /// Two resources move from one stream to another, while many streams still read a third.
    fn handed_over(&self, random: &mut Random, shape: Shape) -> [Act; 5] {
        let [a, b, c, d] = self.four(random);
        let (one, two) = (random.below(STREAMS), random.below(STREAMS));
        let streams = random.of(&[5, 50, 200]);
        let mut use_of = |stream, store| match random.below(5) {
            0 => Act::Upload { stream, store, value: random.next() as u32 },
            1 => Act::Step(Step::LaunchSplit { stream, store, mid: random.up_to(shape.size()) }),
            2 => Act::Step(Step::Launch { stream, from: d, to: store }),
            3 => Act::Step(Step::Launch { stream, from: store, to: d }),
            _ => Act::Refused { stream, good: vec![store], bad: Bad::PastTheEnd, is_last: true },
        };
        [
            Act::Readers { store: c, streams },
            use_of(one, a),
            Act::Step(Step::Launch { stream: one, from: b, to: c }),
            use_of(two, a),
            use_of(two, b),
        ]
    }

    /// An act of any kind.
    fn any(&self, random: &mut Random, shape: Shape) -> Act {
        let comm = random.below(COMMS);
        match random.below(40) {
            0..20 => Act::Step(draw::program(random, shape, 1).remove(0)),
            20..37 => self.own(random, shape),
            37 | 38 => Act::Child {
                comm,
                store: random.below(STORES),
                colors: (0..shape.ranks).map(|_| random.below(2) as u32).collect(),
                shared: random.one_in(2),
                times: 1 + random.below(4),
                end: random.of(&[Fate::Awaited, Fate::Dropped]),
            },
            _ => Act::Rewindow { comm, window: random.below(WINDOWS), closed: random.one_in(2) },
        }
    }

    /// An act of one rank.
    fn own(&self, random: &mut Random, shape: Shape) -> Act {
        let [a, b, c, d] = self.four(random);
        let stream = random.below(self.streams);
        match random.of(&self.kinds) {
            Own::Blend => Act::Blend { stream, reads: [a, b], writes: [c, d], panics: Panics::No },
            Own::Panic => {
                let panics = random.of(&[Panics::AtFirst, Panics::AtLast]);
                Act::Blend { stream, reads: [a, b], writes: [c, d], panics }
            }
            Own::Refused => {
                let good = [a, b, c][..random.below(4)].to_vec();
                let bad = random.of(&[Bad::OtherDevice, Bad::PastTheEnd]);
                Act::Refused { stream, good, bad, is_last: random.one_in(2) }
            }
            Own::Readers => Act::Readers { store: a, streams: random.of(&[1, 5, 25]) },
            Own::Upload => Act::Upload { stream, store: a, value: random.next() as u32 },
            Own::Download => Act::Download { stream, store: a },
            Own::Copied => Act::Copied(random.of(&[Fate::Awaited, Fate::Dropped, Fate::Forgotten])),
            Own::Forget => Act::Forget { stream },
            Own::Launch => Act::Step(Step::Launch { stream, from: a, to: b }),
            Own::Split => {
                let mid = random.up_to(shape.size());
                Act::Step(Step::LaunchSplit { stream, store: a, mid })
            }
            Own::Away => Act::Step(Step::Away { store: a }),
            Own::Write => Act::Step(Step::Write { store: a, value: random.next() as u32 }),
            Own::Read => Act::Step(Step::Read { store: a }),
            Own::Renew => Act::Step(Step::Renew { buffer: random.below(BUFFERS) }),
            Own::NewStream => Act::Step(Step::NewStream { stream }),
            Own::Wait => Act::Step(Step::Wait { stream, on: random.below(self.streams) }),
            Own::Sync => Act::Step(Step::Sync { stream }),
        }
    }

    /// Four stores, the first ones more often than the last.
    fn four(&self, random: &mut Random) -> [usize; 4] {
        let mut all = self.stores.clone();
        [(); 4].map(|()| {
            let at = random.below(all.len()).min(random.below(all.len()));
            all.remove(at)
        })
    }
}
