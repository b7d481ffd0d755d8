//! A rough program: acts, the threads that play them, and the expected results.

use std::collections::HashMap;
use std::time::Duration;

use super::act::{Act, Id, Mood, Panics};
use super::deaths::{DEATHS, Plan};
use super::draw;
use super::model::Model;
use super::random::Random;
use super::step::{Shape, Step};

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) shape: Shape,
    pub(crate) threads: usize,
    pub(crate) acts: Vec<Act>,
    /// Ranks that die on the way; then nothing is compared.
    pub(crate) deaths: Vec<Plan>,
    pub(crate) deadline: Duration,
}

/// The expected results.
pub(crate) struct Outcome {
    /// The stores read on the way: by act, then by rank.
    pub(crate) read: HashMap<usize, Vec<Vec<u32>>>,
    pub(crate) last: Model,
    /// The resources of each act.
    pub(crate) uses: Vec<Vec<Id>>,
}

impl Script {
    /// One rank, whose threads pass everything around.
    pub(crate) fn alone(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let shape = Shape { ranks: 1, block: 1 + random.below(60) };
        let mood = Mood::draw(random);
        let acts = mood.acts(random, shape, 150, true);
        Self::new(seed, shape, 1 + random.below(4), acts)
    }

    /// Several ranks, each of several threads.
    pub(crate) fn together(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let shape = draw::shape(random);
        let mood = Mood::draw(random);
        let count = if shape.block > 1000 { 20 } else { 80 };
        let mut acts = mood.acts(random, shape, count, false);
        let threads = 1 + random.below(4);
        for act in &mut acts {
            match act {
                // The next wait of any thread would report it.
                Act::Step(Step::Round(round)) if threads > 1 => round.refused_by = None,
                // It would refuse what other threads have just enqueued behind it. A rank alone is
                // not made to wait for its panics.
                Act::Blend { panics, .. } if threads > 1 || shape.ranks == 1 => {
                    *panics = Panics::No
                }
                _ => {}
            }
        }
        Self::new(seed, shape, threads, acts)
    }

    fn new(seed: u64, shape: Shape, threads: usize, acts: Vec<Act>) -> Self {
        let (deaths, deadline) = (Vec::new(), Duration::from_secs(60));
        Self { seed, shape, threads, acts, deaths, deadline }
    }

    /// Several ranks, of which some die.
    pub(crate) fn dying(seed: u64) -> Self {
        let script = Self::together(seed);
        let random = &mut Random::new(!seed);
        let count = script.acts.len();
        let deaths = 1 + random.below(6);
        let deaths = (0..deaths).map(|_| Plan::draw(random, script.shape, count, &DEATHS));
        Self { deaths: deaths.collect(), deadline: Duration::from_secs(30), ..script }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let mut last = Model::new(self.shape);
        let mut read = HashMap::new();
        for (at, act) in self.acts.iter().enumerate() {
            if let Act::Step(Step::Read { store }) | Act::Download { store, .. } = act {
                read.insert(at, last.everywhere(*store));
            }
            last.act(act, self.shape);
        }
        Outcome { read, last, uses: self.acts.iter().map(Act::uses).collect() }
    }

    /// Whether only the acts' own failures are allowed.
    pub(crate) fn is_strict(&self) -> bool {
        self.deaths.is_empty()
    }
}
