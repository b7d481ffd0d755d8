//! Local work of plans, on the host. `tests/gpu` runs the same on GPUs.

use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::{self, Timing, Values};
use typed_nccl::{Avg, Error, Host, Min, Sum, plan as declared};

use crate::ranks::spmd;

mod body;

#[test]
fn every_type_and_reduction_is_what_rust_makes_of_it() {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        body::every_type(&mut comm)?;
        comm.finish()
    })
    .expect("one rank");
}

declared! {
    /// The part that came is added on one stream while the next one comes on another.
    pipelined(n: Ranks, k: usize, len: usize) {
        in parts[i in 0..k]: [i64; len];
        inout total: [i64; len];
        local got[i in 0..2]: [i64; len];
        stream net, compute;
        for i in 0..k {
            send parts[i] to (rank + 1) % n into got[i % 2] on net;
            total += got[i % 2] on compute;
        }
    }
}

#[test]
fn streams_wait_for_local_work_and_it_for_them() {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (k, len) = (5, 40_000);
        let mut bound = pipelined::bind(&mut comm, pipelined::Params { k, len })?;
        let own = |rank: usize, i: usize| (10 * rank + i) as i64;
        let rank = comm.rank().index();
        for seed in 0..6 {
            bound.set_timing(Timing::Shaken(100 * seed + rank as u64));
            let device = comm.device();
            let part = |i| device.from_slice(&vec![own(rank, i); len]);
            let parts = (0..k).map(part).collect::<Result<Vec<_>, _>>()?;
            let mut total = device.from_slice(&vec![1; len])?;
            let buffers = pipelined::Buffers { parts: &parts, total: &mut total };
            bound.run(&comm, buffers)?;
            let sum: i64 = (0..k).map(|i| own((rank + 2) % 3, i)).sum();
            assert_eq!(total.to_vec()?, vec![1 + sum; len]);
        }
        comm.finish()
    })
    .expect("three ranks");
}

#[test]
fn a_plan_that_is_built_reduces_too() {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut built = PlanBuilder::new("built");
        built.ranks(1..);
        let (x, y) = (built.in_out::<f32>("x", 3), built.input::<f32>("y", 3));
        let net = built.stream("net");
        built.on(net).update(x.slice(..2), Sum, y.slice(1..));
        built.on(net).copy(y.slice(..1), x.slice(2..));
        built.on(net).assign(x.slice(..1), Min, [x.slice(..1), y.slice(..1)]);
        let checked = built.check().unwrap_or_else(|refused| panic!("{refused}"));
        let mut bound = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        let told = bound.describe();
        assert!(
            told.contains("x[0..2] += y[1..3]") && told.contains("x[2..3] = y[0..1]"),
            "{told}"
        );
        let mut x = comm.device().from_slice(&[1.0_f32, 2.0, 3.0])?;
        let y = comm.device().from_slice(&[10.0_f32, 20.0, 30.0])?;
        bound.on(&comm).write("x", &mut x).read("y", &y).run(&mut ())?;
        assert_eq!(x.to_vec()?, [10.0, 32.0, 10.0]);
        comm.finish()
    })
    .expect("two ranks");
}

#[test]
fn an_average_of_integers_is_refused_when_the_type_is_known() {
    use typed_nccl::plan::build::Generic;
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let mut built = PlanBuilder::new("mean");
        built.ranks(1..);
        let (x, y) = (built.in_out::<Generic>("x", 3), built.input::<Generic>("y", 3));
        let net = built.stream("net");
        built.on(net).update(x, Avg, y);
        let checked = built.check().unwrap_or_else(|refused| panic!("{refused}"));
        let values = Values::new().element::<i32>("T");
        let error = plan::bind(&mut comm, checked.plan(), &values).map(drop);
        let Err(error @ Error::BadPlan(_)) = error else { panic!("{error:?}") };
        assert!(error.to_string().contains("it averages i32"), "{error}");
        comm.finish()
    })
    .expect("one rank");
}
