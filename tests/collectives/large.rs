//! Collectives that are large enough to be cut into chunks and moved by several threads.

use crate::call::Collective;
use crate::check::check;
use crate::strategies::{large, random};

fn prove(what: Collective) {
    random(5, &large(what), |case| check(&case));
}

#[test]
fn all_reduce() {
    prove(Collective::AllReduce);
}

#[test]
fn broadcast() {
    prove(Collective::Broadcast);
}

#[test]
fn reduce() {
    prove(Collective::Reduce);
}

#[test]
fn all_gather() {
    prove(Collective::AllGather);
}

#[test]
fn reduce_scatter() {
    prove(Collective::ReduceScatter);
}

#[test]
fn all_to_all() {
    prove(Collective::AllToAll);
}

#[test]
fn gather() {
    prove(Collective::Gather);
}

#[test]
fn scatter() {
    prove(Collective::Scatter);
}
