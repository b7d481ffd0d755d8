//! Conditions on the rank, for every number of ranks: what holds for all is what is found at each.

mod collectives;
mod lengths;
mod nodes;
mod puts;
mod remainders;
mod says;
mod turns;
mod words;
