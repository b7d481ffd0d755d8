//! Unordered puts: data may be torn and hazards reported, but nothing else goes wrong.

use std::thread;
use std::time::Duration;

use typed_nccl::{Error, Result, Sum};

use super::device::{mixed, split};
use super::draw::windows;
use super::random::Random;
use super::rank::{Rank, seats};
use super::step::{At, STREAMS, Shape};

pub(crate) fn play_seed(seed: u64) {
    let mut random = Random::new(seed);
    let block = if random.one_in(5) { 100_000 } else { 1 + random.below(200) };
    let shape = Shape { ranks: 1 + random.below(4), block };
    let steps = if block > 1000 { 20 } else { 100 };
    thread::scope(|scope| {
        for seats in seats(shape.ranks) {
            scope.spawn(move || {
                let mut rank = Rank::new(seats, shape, Duration::from_secs(60));
                let rank = rank.as_mut().expect("connected");
                let mut random = Random::new(seed * 77 + rank.index as u64);
                for step in 0..steps {
                    hazard_at_worst(rank.race(&mut random));
                    if step % 10 == 0 {
                        hazard_at_worst(rank.meet(step / 10));
                    }
                }
                for comm in rank.comms.drain(..).flatten() {
                    while !hazard_at_worst(comm.sync(comm.stream())) {}
                    hazard_at_worst(comm.barrier());
                    // Hazards of the peers' last puts are reported here at the latest.
                    hazard_at_worst(comm.finish());
                }
            });
        }
    });
}

/// True if nothing was reported.
fn hazard_at_worst(outcome: Result<()>) -> bool {
    match outcome {
        Ok(()) => true,
        // The signals are not awaited either.
        Err(Error::Hazard(_) | Error::Unawaited(_)) => false,
        Err(error) => panic!("not only a hazard: {error}"),
    }
}

impl Rank {
    /// Uses windows at random.
    fn race(&mut self, random: &mut Random) -> Result<()> {
        let size = self.shape.size();
        let index = random.below(self.comms.len());
        let comm = self.comms[index].as_ref().expect("alive");
        let own: Vec<usize> = windows(index).collect();
        let (window, stream) = (random.of(&own), &self.streams[random.below(STREAMS)]);
        let len = random.up_to(size);
        let start = random.up_to(size - len);
        match random.below(9) {
            0..4 => {
                let source = self.stores[random.of(&own)].source(At { store: 0, start }, len);
                let at = At { store: 0, start: random.up_to(size - len) };
                let slot = self.slots[index][random.below(2)][random.below(3)];
                let target = self.stores[window].target(at).raising(slot);
                comm.on(stream).put_signal(source, random.below(self.shape.ranks), target)
            }
            4 => comm.on(stream).signal(random.below(self.shape.ranks)),
            5 => {
                let (mut left, mut right) = self.stores[window].all_mut().split_at_mut(start);
                split(stream, &mut left, &mut right)
            }
            6 => {
                let [from, to] = self.stores.get_disjoint_mut([window, 0]).expect("two stores");
                let (from, mut to) = (from.slice(start..start + len), to.all_mut());
                mixed(stream, &from, &mut to)
            }
            7 => self.stores[window].to_vec().map(drop),
            _ => {
                let values = vec![random.next() as u32; len];
                self.stores[window].slice_mut(start..start + len).copy_from(&values)
            }
        }
    }

    /// Lets the ranks' windows meet in a collective, which every rank calls.
    fn meet(&mut self, at: usize) -> Result<()> {
        let comm = self.comms[0].as_ref().expect("alive");
        let window = windows(0).nth(at % 3).expect("three windows");
        comm.all_reduce_in_place(&mut self.stores[window].all_mut(), Sum)
    }
}
