//! What programs make of buffers and windows, against the model.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use crate::draw;
use crate::model::Model;
use crate::random::Random;
use crate::rank::{Rank, seats};
use crate::seeds;
use crate::step::Step;

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn programs_make_of_every_store_what_the_model_says() {
    seeds::each("programs", 100, |seed| {
        let mut random = Random::new(seed);
        let shape = draw::shape(&mut random);
        let steps = if shape.block > 1000 { 20 } else { 100 };
        let program = draw::program(&mut random, shape, steps);
        let mut model = Model::new(shape);
        // What is read on the way: by step, then by rank.
        let mut read: HashMap<usize, Vec<Vec<u32>>> = HashMap::new();
        for (at, step) in program.iter().enumerate() {
            if let Step::Read { store } = step {
                read.insert(at, model.stores.iter().map(|stores| stores[*store].clone()).collect());
            }
            model.step(step);
        }
        let (program, read, model) = (&program, &read, &model);
        thread::scope(|scope| {
            for seats in seats(shape.ranks) {
                scope.spawn(move || {
                    let mut rank = Rank::new(seats, shape, DEADLINE).expect("connected");
                    let mut random = Random::new(seed * 77 + rank.index as u64);
                    for (at, step) in program.iter().enumerate() {
                        if random.one_in(20) {
                            thread::sleep(Duration::from_micros(random.next() % 500));
                        }
                        let expected = read.get(&at).map(|ranks| &ranks[rank.index][..]);
                        let outcome = rank.step(step, expected);
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
                    if seed % 2 == 0 {
                        check(&rank);
                    }
                    for comm in rank.comms.drain(..).flatten() {
                        comm.finish().expect("all is well");
                    }
                    check(&rank);
                });
            }
        });
    });
}
