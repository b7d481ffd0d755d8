//! Collectives that are large enough to be cut into chunks and moved by several threads.

use super::call::Collective;
use super::check::check;
use super::strategies::{Scope, large, random};

fn prove(what: Collective) {
    random(5, &large(Scope::ALL, what), |case| check(&case));
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
