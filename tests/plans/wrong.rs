//! Plans that are wrong at the sizes for which they are bound.

use typed_nccl::plan;
use typed_nccl::plan::build::{PlanBuilder, ring};
use typed_nccl::plan::{Plan, Values};
use typed_nccl::{Communicator, Error, Host, Result, Scoped};

use crate::ranks::spmd;

type Rank<'id> = Communicator<Host<Scoped<'id>>>;

plan! {
    /// Wrong from 5,001 turns on, which no compiler tries.
    late(n: Ranks in 2.., len: usize, k: usize) {
        in a: [f32; len];
        inout b: [f32; len];
        for i in 0..k {
            if i == 5000 { send a to (rank + 1) % n; }
        }
        send a to (rank + 1) % n into b;
    }
}

plan! {
    /// Right at every size tried at compile time. Around 101 ranks, three steps of 47 lead as far
    /// as one of 40, so that one rank gets two messages, which it receives in the opposite order.
    far(n: Ranks in 55.., len: usize) {
        in a: [f32; len];
        in x[i in 0..4]: [f32; len];
        inout b: [f32; len];
        inout y[i in 0..4]: [f32; len];
        group {
            for i in 1..4 { send x[i] to (rank + 47 * i) % n; }
            send a to (rank + 40) % n;
            recv b from (rank - 40) % n;
            for i in 1..4 { recv y[i] from (rank - 47 * i) % n; }
        }
    }
}

/// Why each of three ranks cannot bind.
fn refused(bind: impl for<'id> Fn(&mut Rank<'id>) -> Result<()> + Sync) -> Vec<String> {
    refused_of(3, bind)
}

fn refused_of(
    ranks: usize,
    bind: impl for<'id> Fn(&mut Rank<'id>) -> Result<()> + Sync,
) -> Vec<String> {
    let told = Host::spmd(ranks, |place| -> Result<Option<String>> {
        let mut comm = place.init()?;
        let told = match bind(&mut comm) {
            Ok(()) => None,
            Err(Error::BadPlan(told)) => Some(told.why.to_string()),
            Err(other) => return Err(other),
        };
        // The communicator is unharmed.
        comm.barrier()?;
        comm.finish()?;
        Ok(told)
    });
    told.expect("every rank is told").into_iter().flatten().collect()
}

/// Every rank sends first.
fn circle() -> Plan {
    let mut plan = PlanBuilder::new("circle");
    plan.ranks(1..);
    let (a, b) = (plan.input::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let net = plan.stream("net");
    plan.on(net).send(a, ring(1));
    plan.on(net).receive(b, ring(-1));
    plan.unchecked().expect("a plan")
}

#[test]
fn every_rank_gets_the_same_story() {
    let circle = circle();
    let told = refused(|comm| plan::bind(comm, &circle, &Values::new()).map(drop));
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|why| *why == told[0]), "{told:#?}");
    assert!(told[0].contains("for n = 3: ranks 0, 1 and 2 wait in a circle"), "{}", told[0]);
}

/// If a plan cannot even be expanded, each rank finds that by itself.
#[test]
fn a_region_outside_its_buffer_is_told_to_all() {
    let mut plan = PlanBuilder::new("outside");
    plan.ranks(1..);
    let r = plan.rank();
    let (a, b) = (plan.input::<f32>("a", 1), plan.in_out::<f32>("b", 1));
    let net = plan.stream("net");
    plan.on(net).transfer(a.slice(..r), ring(1), b.slice(..r));
    let plan = plan.unchecked().expect("a plan");
    let told = refused(|comm| plan::bind(comm, &plan, &Values::new()).map(drop));
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|why| why.contains("is past the end of `b`")), "{told:#?}");
}

/// It compiles, and is refused where it is wrong.
#[test]
fn what_no_compiler_tries_is_refused_when_it_is_bound() {
    let params = |k| late::Params { len: 1, k };
    let told = refused(|comm| late::bind(comm, params(5001)).map(drop));
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|why| why.contains("for n = 3, len = 1, k = 5001: ")), "{told:#?}");
    assert!(told[0].contains("this message is never received"), "{}", told[0]);
    assert_eq!(refused(|comm| late::bind(comm, params(5000)).map(drop)).len(), 0);
}

/// Distances that meet at a prime that is never tried.
#[test]
fn what_is_wrong_at_larger_sizes_only_is_refused_when_it_is_bound() {
    let bind = |ranks| refused_of(ranks, |comm| far::bind(comm, far::Params { len: 1 }).map(drop));
    let told = bind(101);
    assert_eq!(told.len(), 101);
    assert!(told.iter().all(|why| *why == told[0]), "{told:#?}");
    let story = "for n = 101, len = 1: the neighbours at +141 and at +40 are the same rank";
    assert!(told[0].contains(story), "{}", told[0]);
    assert_eq!(bind(56).len(), 0);
}

#[test]
fn what_was_checked_is_said() {
    let described = |k| {
        let told = spmd::<Host>(2, |place| {
            let mut comm = place.init()?;
            let text = late::bind(&mut comm, late::Params { len: 1, k })?.describe();
            comm.finish()?;
            assert!(text.contains("Checked exactly at "), "{text}");
            let says =
                text.contains("It was checked for n = 2, len = 1, k = 900 when it was bound.");
            assert_eq!(says, k == 900, "{text}");
            Ok(())
        });
        told.expect("a plan that is right");
    };
    described(1);
    described(900);
}
