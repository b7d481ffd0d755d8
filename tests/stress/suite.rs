//! The suite without its tests, which `xtask` runs for longer.

mod act;
mod call;
mod calm;
pub(crate) mod claims;
mod collective;
mod device;
mod draw;
mod model;
mod play;
mod play_round;
mod random;
mod rank;
mod record;
mod rough;
mod round;
pub(crate) mod step;
mod store;
mod views;

pub(crate) mod deaths;
pub(crate) mod programs;
pub(crate) mod races;
pub(crate) mod script;
pub(crate) mod seeds;
pub(crate) mod threads;
