//! Each collective, once, in random cases.

use super::call::Collective;
use super::check::check;
use super::strategies::{Scope, random, single};

fn prove(what: Collective) {
    random(120, &single(Scope::ALL, what), |case| check(&case));
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
