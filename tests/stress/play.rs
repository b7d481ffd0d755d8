//! Plays a program on all ranks, and checks every store against the model.

use std::collections::HashMap;
use std::env;
use std::thread;
use std::time::Duration;

use super::model::Model;
use super::random::Random;
use super::rank::{Rank, seats};
use super::step::{Shape, Step};

const DEADLINE: Duration = Duration::from_secs(60);

/// How many steps a program has.
pub(crate) fn steps(shape: Shape) -> usize {
    if shape.block > 1000 { 20 } else { 100 }
}

pub(crate) fn play(seed: u64, shape: Shape, program: &[Step]) {
    let mut model = Model::new(shape);
    // The stores read on the way: by step, then by rank.
    let mut read: HashMap<usize, Vec<Vec<u32>>> = HashMap::new();
    for (at, step) in program.iter().enumerate() {
        if let Step::Read { store } = step {
            read.insert(at, model.stores.iter().map(|stores| stores[*store].clone()).collect());
        }
        model.step(step);
    }
    let (read, model) = (&read, &model);
    // To find the step that hangs.
    let step_by_step = env::var_os("STRESS_STEPS").is_some();
    let deadline = if step_by_step { DEADLINE / 10 } else { DEADLINE };
    thread::scope(|scope| {
        for seats in seats(shape.ranks) {
            scope.spawn(move || {
                let mut rank = Rank::new(seats, shape, deadline)
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                let mut random = Random::new(seed * 77 + rank.index as u64);
                for (at, step) in program.iter().enumerate() {
                    if random.one_in(20) {
                        thread::sleep(Duration::from_micros(random.next() % 500));
                    }
                    let expected = read.get(&at).map(|ranks| &ranks[rank.index][..]);
                    let mut outcome = rank.step(step, expected);
                    if step_by_step {
                        outcome = outcome.and_then(|()| rank.sync());
                        println!("seed {seed}, rank {}, step {at} is over: {step:?}", rank.index);
                    }
                    outcome.unwrap_or_else(|error| {
                        panic!("seed {seed}, step {at}, {step:?}: {error}")
                    });
                }
                if random.one_in(2) {
                    rank.streams.clear();
                }
                let check = |rank: &Rank| {
                    for (index, store) in rank.stores.iter().enumerate() {
                        let found = store.to_vec().expect("all is well");
                        let same = found == model.stores[rank.index][index];
                        assert!(same, "seed {seed}: store {index} of rank {}", rank.index);
                    }
                };
                if seed.is_multiple_of(2) {
                    check(&rank);
                }
                for comm in rank.comms.drain(..).flatten() {
                    comm.finish().expect("all is well");
                }
                check(&rank);
            });
        }
    });
}
