//! Small plans beside the calls that do the same through the ordinary API, each in turn with the
//! other.

use typed_nccl::plan::build::{Open, PlanBuilder, ring};
use typed_nccl::plan::{self, Bound, Call, Values};
use typed_nccl::{Buffer, Communicator, Cuda, Result, Scoped, SliceMut, Stream, Sum};

use crate::{COUNT, ROUNDS, time};

/// The communicator of one rank of the bench.
type Rank<'id> = Communicator<Cuda<Scoped<'id>>>;

/// What the plans do, in the order of the results.
pub(crate) const SHAPES: [&str; 3] =
    ["one all_reduce", "a send and a receive", "16 buckets on two streams"];

const BUCKETS: usize = 16;

/// Microseconds until the GPU is done and until the host is: of the plan, then of the calls by
/// hand.
pub(crate) type Both = [(f64, f64); 2];

pub(crate) fn measure(comm: &mut Rank<'_>, runs: u32) -> Result<[Both; 3]> {
    Ok([one(comm, runs)?, exchange(comm, runs)?, overlapped(comm, runs)?])
}

fn bound<'id>(
    comm: &mut Rank<'id>,
    fill: impl FnOnce(&mut PlanBuilder<Open>),
) -> Result<Bound<Cuda<Scoped<'id>>>> {
    let mut plan = PlanBuilder::new("small");
    plan.ranks(1..);
    fill(&mut plan);
    let checked = plan.check().unwrap_or_else(|refused| panic!("{refused}"));
    plan::bind(comm, checked.plan(), &Values::new())
}

fn buffers<'id>(comm: &Rank<'id>, count: usize) -> Result<Vec<Buffer<f32, Cuda<Scoped<'id>>>>> {
    (0..count).map(|_| comm.device().zeros(COUNT)).collect()
}

/// The best of several rounds; `way` 0 is the plan.
fn versus<'id>(
    comm: &mut Rank<'id>,
    runs: u32,
    mut run: impl FnMut(&mut Rank<'id>, usize) -> Result<()>,
) -> Result<Both> {
    let mut best = [(f64::INFINITY, f64::INFINITY); 2];
    for _ in 0..ROUNDS {
        for (way, best) in best.iter_mut().enumerate() {
            let (all, host) = time(comm, runs, |comm| run(comm, way))?;
            *best = (best.0.min(all), best.1.min(host));
        }
    }
    Ok(best)
}

fn one(comm: &mut Rank<'_>, runs: u32) -> Result<Both> {
    let mut plan = bound(comm, |plan| {
        let x = plan.in_out::<f32>("x", COUNT as i64);
        let net = plan.stream("net");
        plan.on(net).all_reduce_in_place(x, Sum);
    })?;
    let mut x = comm.device().zeros::<f32>(COUNT)?;
    versus(comm, runs, |comm, way| match way {
        0 => plan.on(comm).write("x", &mut x).run(&mut ()),
        _ => comm.all_reduce_in_place(&mut x, Sum),
    })
}

fn exchange(comm: &mut Rank<'_>, runs: u32) -> Result<Both> {
    let mut plan = bound(comm, |plan| {
        let (a, b) = (plan.input::<f32>("a", COUNT as i64), plan.output::<f32>("b", COUNT as i64));
        let net = plan.stream("net");
        plan.on(net).transfer(a, ring(1), b);
    })?;
    let (a, mut b) = (comm.device().zeros::<f32>(COUNT)?, comm.device().zeros::<f32>(COUNT)?);
    let (next, before) = (comm.ring(1), comm.ring(-1));
    versus(comm, runs, |comm, way| match way {
        0 => plan.on(comm).read("a", &a).write("b", &mut b).run(&mut ()),
        _ => comm.group(|g| {
            g.send(&a, next)?;
            g.recv(&mut b, before)
        }),
    })
}

/// What backward would launch: nothing, in its place.
fn backward<'id>(
    stream: &Stream<Cuda<Scoped<'id>>>,
    g: &mut SliceMut<'_, f32, Cuda<Scoped<'id>>>,
) -> Result<()> {
    stream.launch(g, |_, _| ())
}

fn overlapped<'id>(comm: &mut Rank<'id>, runs: u32) -> Result<Both> {
    let mut plan = bound(comm, |plan| {
        let g = plan.array(BUCKETS as i64).in_out::<f32>("g", |_| COUNT);
        let (net, compute) = (plan.stream("net"), plan.stream("compute"));
        plan.for_each("i", ..BUCKETS as i64, |plan, i| {
            plan.on(compute).run("backward").argument(i).writes(g.at(i));
            plan.on(net).after([compute]).all_reduce_in_place(g.at(i), Sum);
        });
        plan.on(compute).after([net]).run("apply").reads(g);
    })?;
    let mut g = buffers(comm, BUCKETS)?;
    let compute = comm.device().stream()?;
    let mut steps = |call: &mut Call<'_, Cuda<Scoped<'id>>>| match call.name() {
        "backward" => backward(call.stream(), &mut call.write::<f32>(0)?),
        _ => {
            for one in call.reads::<f32>(0)?.iter() {
                call.stream().launch(one, |_, _| ())?;
            }
            Ok(())
        }
    };
    versus(comm, runs, |comm, way| {
        if way == 0 {
            return plan.on(comm).write("g", &mut g).run(&mut steps);
        }
        for one in &mut g {
            backward(&compute, &mut one.all_mut())?;
            comm.all_reduce_in_place(one, Sum)?;
        }
        for one in &g {
            compute.launch(one.all(), |_, _| ())?;
        }
        Ok(())
    })
}
