//! The effect of programs on buffers and windows, against the model.

use super::draw;
use super::play::{play, steps};
use super::random::Random;

pub(crate) fn play_seed(seed: u64) {
    let mut random = Random::new(seed);
    let shape = draw::shape(&mut random);
    let program = draw::program(&mut random, shape, steps(shape));
    play(seed, shape, &program);
}
