//! Complex numbers on the host. `tests/gpu` and `tests/processes` run the same body.

use num_complex::Complex;
use typed_nccl::plan::build::{Generic, PlanBuilder};
use typed_nccl::plan::{self, Values};
use typed_nccl::{Avg, DType, DynBuffer, Error, Host, Max, Prod, Result, Sum};

use crate::ranks::spmd;

mod body;

#[test]
fn they_are_summed_averaged_and_multiplied() -> Result<()> {
    for ranks in [1, 2, 3, 4] {
        spmd::<Host>(ranks, |place| {
            let comm = place.init()?;
            // Within a chunk of the engine's, and over several.
            for len in [1, 7, 1000, 40_001] {
                body::sum::<f32, _>(&comm, len)?;
                body::sum::<f64, _>(&comm, len)?;
                body::product(&comm, len)?;
            }
            comm.finish()
        })?;
    }
    Ok(())
}

/// Intermediate sums that overflow, of the real parts alone.
#[test]
fn an_exact_sum_is_that_of_each_part() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let own = [(3e38, 1.0), (3e38, f32::EPSILON / 4.0), (-3e38, f32::EPSILON / 4.0)];
        let (re, im) = own[comm.rank().index()];
        let mut x = comm.device().from_slice(&[Complex::new(re, im)])?;
        comm.all_reduce_in_place(&mut x, Sum.exact())?;
        assert_eq!(x.to_vec()?, [Complex::new(3e38, 1.0)]);
        comm.finish()
    })
}

#[test]
fn what_they_have_not_is_refused_by_value() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = DynBuffer::zeros(comm.device(), DType::ComplexF32, 4)?;
        let error = comm.all_reduce_in_place(&mut x, Max).expect_err("no order");
        let text = error.to_string();
        assert!(text.contains("`Max` cannot reduce complex<f32>"), "{text}");
        assert!(text.contains("no order; reduce their magnitudes"), "{text}");
        let error = x.typed::<Complex<f64>>().map(drop).expect_err("another type");
        let text = error.to_string();
        assert!(text.contains("complex<f32>") && text.contains("complex<f64>"), "{text}");
        comm.finish()
    })
}

#[test]
fn ranks_that_differ_in_the_type_are_told() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        // As many bytes, and as many floats.
        let outcome = match comm.rank().index() {
            0 => {
                let mut x = comm.device().zeros::<Complex<f32>>(4)?;
                comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec().map(drop))
            }
            _ => {
                let mut x = comm.device().zeros::<f32>(8)?;
                comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec().map(drop))
            }
        };
        let error = outcome.expect_err("two types");
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        assert!(error.to_string().contains("complex<f32>"), "{error}");
        Ok(())
    })
}

/// By a type parameter, both collectives and local work.
#[test]
fn plans_reduce_them() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut built = PlanBuilder::new("complex");
        built.ranks(1..);
        let (x, y) = (built.in_out::<Generic>("x", 3), built.input::<Generic>("y", 3));
        let net = built.stream("net");
        built.on(net).update(x.slice(..1), Sum, y.slice(..1));
        built.on(net).update(x.slice(1..2), Prod, y.slice(1..2));
        built.on(net).update(x.slice(2..), Avg, y.slice(2..));
        let checked = built.check().unwrap_or_else(|refused| panic!("{refused}"));
        let values = Values::new().element::<Complex<f32>>("T");
        let mut bound = plan::bind(&mut comm, checked.plan(), &values)?;
        let mut x = comm.device().from_slice(&[Complex::new(1.0_f32, 2.0); 3])?;
        let y = comm.device().from_slice(&[Complex::new(3.0_f32, -4.0); 3])?;
        bound.on(&comm).write("x", &mut x).read("y", &y).run(&mut ())?;
        let wanted = [(4.0, -2.0), (11.0, 2.0), (2.0, -1.0)];
        assert_eq!(x.to_vec()?, wanted.map(|(re, im)| Complex::new(re, im)));
        comm.finish()
    })
}
