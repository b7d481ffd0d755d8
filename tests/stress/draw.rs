//! Draws programs.

use super::random::Random;
use super::round::draw_round;
use super::step::{
    At, BUFFERS, COMMS, Collective, InPlace, Kind, STORES, STREAMS, Shape, Step, WINDOWS,
};

pub(crate) fn shape(random: &mut Random) -> Shape {
    match random.below(12) {
        // Large enough to be moved by several threads, one operation at a time.
        0 => Shape { ranks: 1 + random.below(3), block: 80_000 },
        1 => Shape { ranks: 2 + random.below(5), block: 12_000 },
        _ => Shape { ranks: 1 + random.below(6), block: 1 + random.below(50) },
    }
}

pub(crate) fn program(random: &mut Random, shape: Shape, steps: usize) -> Vec<Step> {
    (0..steps).map(|_| step(random, shape)).collect()
}

/// The windows of a communicator, as stores.
pub(crate) fn windows(comm: usize) -> std::ops::Range<usize> {
    let first = BUFFERS + comm * WINDOWS;
    first..first + WINDOWS
}

pub(crate) fn length(random: &mut Random, shape: Shape) -> usize {
    match random.below(8) {
        0 => 0,
        1..4 => shape.block,
        _ => random.up_to(shape.block),
    }
}

/// A place in `store` with room for `len` elements.
pub(crate) fn place(random: &mut Random, shape: Shape, store: usize, len: usize) -> At {
    At { store, start: random.up_to(shape.size() - len) }
}

fn step(random: &mut Random, shape: Shape) -> Step {
    let (comm, stream) = (random.below(COMMS), random.below(STREAMS));
    let (store, other) = two(random);
    match random.below(40) {
        0..7 => Step::Collective { comm, stream, what: collective(random, shape) },
        7..11 => Step::InPlace { comm, stream, what: in_place(random, shape) },
        11..19 => Step::Round(draw_round(random, shape, comm, stream)),
        19 => {
            let row =
                |random: &mut Random| (0..shape.ranks).map(|_| random.up_to(shape.block)).collect();
            let counts = (0..shape.ranks).map(|_| row(random)).collect();
            Step::AllToAllV { comm, from: store, to: other, counts }
        }
        20 => Step::AllGatherV { comm, from: store, to: other, blocks: blocks(random, shape) },
        21 => Step::ReduceScatterV { comm, blocks: blocks(random, shape) },
        22..25 => Step::Launch { stream, from: store, to: other },
        25 => Step::LaunchSplit { stream, store, mid: random.up_to(shape.size()) },
        26..28 => Step::Away { store },
        28 => Step::Write { store, value: random.next() as u32 },
        29..32 => Step::Read { store },
        32 => Step::Renew { buffer: random.below(BUFFERS) },
        33 => Step::NewStream { stream },
        34..36 => Step::Wait { stream, on: random.below(STREAMS) },
        36 => Step::Sync { stream },
        37 => Step::Refused { comm, stream },
        _ => Step::InPlace { comm, stream, what: in_place(random, shape) },
    }
}

fn two(random: &mut Random) -> (usize, usize) {
    let store = random.below(STORES);
    (store, (store + 1 + random.below(STORES - 1)) % STORES)
}

fn blocks(random: &mut Random, shape: Shape) -> Vec<usize> {
    (0..shape.ranks).map(|_| random.up_to(shape.block)).collect()
}

fn collective(random: &mut Random, shape: Shape) -> Collective {
    let root = random.below(shape.ranks);
    let kind = random.of(&[
        Kind::Sum,
        Kind::Max,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::AllToAll,
        Kind::Broadcast(root),
        Kind::Reduce(root),
        Kind::Gather(root),
        Kind::Scatter(root),
    ]);
    let (len, (from, to)) = (length(random, shape), two(random));
    let from = place(random, shape, from, kind.sends(len, shape.ranks));
    let to = place(random, shape, to, kind.receives(len, shape.ranks));
    Collective { kind, from, to, len }
}

/// The kinds that have a form in place.
pub(crate) fn kind_in_place(random: &mut Random, shape: Shape) -> Kind {
    let root = random.below(shape.ranks);
    random.of(&[
        Kind::Sum,
        Kind::Max,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::Broadcast(root),
        Kind::Reduce(root),
        Kind::Gather(root),
        Kind::Scatter(root),
    ])
}

/// The most elements that a collective in place has on any rank.
pub(crate) fn widest(kind: Kind, len: usize, shape: Shape) -> usize {
    match kind {
        Kind::Sum | Kind::Max | Kind::Broadcast(_) | Kind::Reduce(_) => len,
        _ => shape.ranks * len,
    }
}

fn in_place(random: &mut Random, shape: Shape) -> InPlace {
    let (kind, len, store) =
        (kind_in_place(random, shape), length(random, shape), random.below(STORES));
    let at = place(random, shape, store, widest(kind, len, shape));
    InPlace { kind, at, len }
}
