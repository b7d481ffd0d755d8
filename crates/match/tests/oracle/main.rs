//! Random histories, and all small ones, beside slow oracles that look at all pairs.

mod circles;
mod matching;
mod order;
mod signals;
