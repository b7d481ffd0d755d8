//! Draws rounds: operations that may happen in any order, because none reads or writes what another
//! one writes.

use super::draw::{kind_in_place, length, place, widest, windows};
use super::random::Random;
use super::step::{
    At, CONTEXTS, Collective, Fence, InPlace, Kind, Part, Put, Round, SIGNALS, STORES, STREAMS,
    Shape, Transfer, Waits,
};

/// A store's role in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Read,
    /// Its owner's operations write parts of it.
    Written,
    /// Puts write parts of it.
    Target,
}

struct Draw<'r> {
    random: &'r mut Random,
    shape: Shape,
    comm: usize,
    roles: Vec<Role>,
    /// How much of each store is used already.
    taken: Vec<usize>,
}

pub(crate) fn draw_round(random: &mut Random, shape: Shape, comm: usize, stream: usize) -> Round {
    let fenced = random.one_in(2);
    let mut roles: Vec<Role> =
        (0..STORES).map(|_| if random.one_in(2) { Role::Read } else { Role::Written }).collect();
    if fenced {
        // At least one window to read and one to write.
        let own: Vec<usize> = windows(comm).collect();
        let (source, target) = (random.below(own.len()), 1 + random.below(own.len() - 1));
        roles[own[source]] = Role::Read;
        roles[own[(source + target) % own.len()]] = Role::Target;
    }
    let grouped = random.one_in(2);
    let mut draw = Draw { random, shape, comm, roles, taken: vec![0; STORES] };
    let count = 1 + draw.random.below(12);
    let parts = (0..count).filter_map(|_| draw.part(fenced, grouped)).collect();
    let fence = fenced.then(|| match random.below(3) {
        0 => Fence::Barrier,
        1 => Fence::Signals(slot(random)),
        _ => Fence::Collective,
    });
    let refused_by = (fenced && grouped && random.one_in(4)).then(|| random.below(shape.ranks));
    let waits = match random.below(3) {
        0 if grouped && refused_by.is_none() => Waits::InGroup,
        1 => Waits::Together,
        _ => Waits::OneByOne,
    };
    let waiting = random.below(STREAMS);
    Round { comm, stream, parts, grouped, fence, waits, waiting, refused_by }
}

fn slot(random: &mut Random) -> (u32, u32) {
    if random.one_in(2) {
        return (0, 0);
    }
    (random.below(CONTEXTS as usize) as u32, random.below(SIGNALS as usize) as u32)
}

impl Draw<'_> {
    fn part(&mut self, fenced: bool, grouped: bool) -> Option<Part> {
        let (shape, random) = (self.shape, &mut *self.random);
        let (one, two) = (random.below(shape.ranks), random.below(shape.ranks));
        let len = length(random, shape).min(1 + random.below(shape.block));
        match random.below(if fenced { 8 } else { 4 }) {
            0 => {
                let kinds = [
                    Kind::Sum,
                    Kind::Max,
                    Kind::AllGather,
                    Kind::ReduceScatter,
                    Kind::AllToAll,
                    Kind::Reduce(one),
                ];
                let kind = random.of(&kinds);
                let from = self.source(kind.sends(len, shape.ranks))?;
                let to = self.room(Role::Written, kind.receives(len, shape.ranks))?;
                Some(Part::Collective(Collective { kind, from, to, len }))
            }
            1 => {
                let kind = kind_in_place(random, shape);
                let at = self.room(Role::Written, widest(kind, len, shape))?;
                Some(Part::InPlace(InPlace { kind, at, len }))
            }
            // A transfer to oneself needs a group.
            2 | 3 if one == two && !grouped => None,
            2 | 3 => {
                let (from, to) = (self.source(len)?, self.room(Role::Written, len)?);
                Some(Part::Transfer(Transfer { sender: one, receiver: two, from, to, len }))
            }
            7 => {
                // Groups have signals in the first slot only.
                let slot = if grouped { (0, 0) } else { slot(random) };
                Some(Part::Signal { from: one, to: two, slot })
            }
            _ => {
                let slot = slot(random);
                let own: Vec<usize> =
                    windows(self.comm).filter(|&store| self.roles[store] == Role::Read).collect();
                let store = self.random.of(&own);
                let from = place(self.random, shape, store, len);
                let to = self.room(Role::Target, len)?;
                Some(Part::Put(Put { writer: one, target: two, from, to, len, slot }))
            }
        }
    }

    /// Elements to read.
    fn source(&mut self, len: usize) -> Option<At> {
        let store = self.random.below(STORES);
        (self.roles[store] == Role::Read).then(|| place(self.random, self.shape, store, len))
    }

    /// Elements that no other operation of the round touches; places in a store ascend.
    fn room(&mut self, role: Role, len: usize) -> Option<At> {
        let first = self.random.below(STORES);
        let stores = (first..first + STORES).map(|store| store % STORES);
        let fits = |&store: &usize| {
            self.roles[store] == role && self.taken[store] + len <= self.shape.size()
        };
        let store = stores.into_iter().find(fits)?;
        let start = self.taken[store];
        self.taken[store] += len;
        Some(At { store, start })
    }
}
