//! What programs make of buffers and windows, against the model.

use super::draw;
use super::play::{play, steps};
use super::random::Random;
use super::seeds;

#[test]
fn programs_make_of_every_store_what_the_model_says() {
    seeds::each("programs", 100, |seed| {
        let mut random = Random::new(seed);
        let shape = draw::shape(&mut random);
        let program = draw::program(&mut random, shape, steps(shape));
        play(seed, shape, &program);
    });
}
