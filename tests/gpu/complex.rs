//! Complex numbers on GPUs: NCCL sums them as pairs of floats.

use num_complex::Complex;
use typed_nccl::plan::build::{Generic, PlanBuilder};
use typed_nccl::plan::{self, Plan, Values};
use typed_nccl::{Avg, Cuda, Error, Prod, Result, Sum};
use typed_nccl_plan::ir::Reduction;

use crate::common::{connect, ranks, says};

#[path = "../complex/body.rs"]
mod body;

pub(crate) fn every_form() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 60)?;
        for len in [1, 7, 1000, 40_001] {
            body::sum::<f32, _>(&comm, len)?;
            body::sum::<f64, _>(&comm, len)?;
        }
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn in_a_graph() -> Result<()> {
    let n = ranks()?;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place, 60)?;
        let own = Complex::new(1.0_f32, -(comm.rank().index() as f32));
        let x = comm.device().from_slice(&[own; 100])?;
        let (mut y, mut z) = (comm.device().zeros(100)?, comm.device().zeros(100)?);
        let mut graph = comm.capture(|g| {
            g.all_reduce(&x, &mut y, Sum)?;
            g.all_reduce(&x, &mut z, Sum.exact())
        })?;
        graph.launch(&comm)?;
        let sum = Complex::new(n as f32, -((0..n).sum::<usize>() as f32));
        assert_eq!((y.to_vec()?, z.to_vec()?), (vec![sum; 100], vec![sum; 100]));
        drop(graph);
        comm.finish()
    })
    .map(drop)
}

fn local_work(by: impl Into<Reduction>) -> Plan {
    let mut built = PlanBuilder::new("complex");
    built.ranks(1..);
    let (x, y) = (built.in_out::<Generic>("x", 3), built.input::<Generic>("y", 3));
    let net = built.stream("net");
    built.on(net).update(x, by, y);
    let checked = built.check().unwrap_or_else(|refused| panic!("{refused}"));
    checked.plan().clone()
}

pub(crate) fn local_work_of_plans() -> Result<()> {
    Cuda::spmd(1, |place| {
        let mut comm = connect(place, 60)?;
        let values = || Values::new().element::<Complex<f64>>("T");
        let y = comm.device().from_slice(&[Complex::new(3.0, -4.0); 3])?;
        for (plan, wanted) in
            [(local_work(Sum), Complex::new(4.0, -2.0)), (local_work(Avg), Complex::new(2.0, -1.0))]
        {
            let mut bound = plan::bind(&mut comm, &plan, &values())?;
            let mut x = comm.device().from_slice(&[Complex::new(1.0, 2.0); 3])?;
            bound.on(&comm).write("x", &mut x).read("y", &y).run(&mut ())?;
            assert_eq!(x.to_vec()?, [wanted; 3]);
        }
        let refused = plan::bind(&mut comm, &local_work(Prod), &values()).map(drop);
        let error = refused.expect_err("no products");
        says(&error, &["Prod of complex<f64> as local work", "`Host`"]);
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn products_are_refused() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 60)?;
        let mut x = comm.device().from_slice(&[Complex::new(1.0_f32, 1.0); 3])?;
        let error = comm.all_reduce_in_place(&mut x, Prod).expect_err("NCCL has none");
        assert!(matches!(error, Error::Unsupported(_)) && error.is_refusal(), "{error}");
        says(&error, &["Prod of complex<f32>", "`Host`"]);
        assert!(comm.health().is_ok());
        comm.finish()
    })
    .map(drop)
}
