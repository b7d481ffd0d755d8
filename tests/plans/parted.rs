//! Streams that use parts of one buffer: they overlap, and are ordered with everything else.

use std::sync::mpsc;
use std::time::Duration;

use typed_nccl::plan::build::{Checked, PlanBuilder};
use typed_nccl::plan::{self, Call, Timing, Values};
use typed_nccl::{Host, Result};

use crate::ranks::spmd;

/// Work on the first half of `x` on one stream, and from `from` on, on another.
fn halves(overlap: i64) -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("halves");
    plan.ranks(1..);
    let h = plan.param("h", 1..);
    let x = plan.in_out::<f32>("x", h * 2);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    let (first, second) = (x.slice(..h), x.slice(h - overlap..));
    plan.on(one).run("first").reads(first).writes(first);
    plan.on(other).run("second").reads(second).writes(second);
    plan.check().expect("a plan that is right")
}

#[test]
fn streams_on_two_halves_run_side_by_side() {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let values = Values::new().number("h", 2);
        let mut halves = plan::bind(&mut comm, halves(0).plan(), &values)?;
        let mut x = comm.device().from_slice(&[1.0_f32, 2.0, 3.0, 4.0])?;
        for round in 0..3 {
            // Each half tells the other one that it runs, and waits until it does.
            let (to_second, from_first) = mpsc::channel();
            let (to_first, from_second) = mpsc::channel();
            let mut ends = [Some((to_second, from_second)), Some((to_first, from_first))];
            let mut steps = |call: &mut Call<'_, Host<_>>| {
                let at = usize::from(call.name() == "second");
                let (tells, hears) = ends[at].take().expect("each step runs once");
                let mut half = call.write::<f32>(0)?;
                call.stream().launch(&mut half, move |half, ()| {
                    tells.send(()).expect("the other half waits");
                    let heard = hears.recv_timeout(Duration::from_secs(60));
                    heard.expect("the other half runs at the same time");
                    half.iter_mut().for_each(|x| *x *= 2.0);
                })
            };
            halves.on(&comm).write("x", &mut x).run(&mut steps)?;
            if round == 1 {
                // What is done outside comes after the run, and before the next one.
                comm.stream().launch(&mut x, |x, ()| x.iter_mut().for_each(|x| *x += 1.0))?;
            }
        }
        assert_eq!(x.to_vec()?, [10.0, 18.0, 26.0, 34.0]);
        comm.finish()
    })
    .expect("the halves overlap");
}

#[test]
fn parts_are_right_whatever_is_late() {
    for overlap in [0, 1] {
        for seed in 0..8 {
            spmd::<Host>(1, |place| {
                let mut comm = place.init()?;
                let values = Values::new().number("h", 2);
                let mut halves = plan::bind(&mut comm, halves(overlap).plan(), &values)?;
                halves.set_timing(Timing::Shaken(seed));
                let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
                let mut steps = |call: &mut Call<'_, Host<_>>| -> Result<()> {
                    let factor = if call.name() == "first" { 2.0 } else { 3.0 };
                    let mut half = call.write::<f32>(0)?;
                    call.stream().launch(&mut half, move |half, ()| {
                        half.iter_mut().for_each(|x| *x = *x * factor + factor);
                    })
                };
                let mut expected = [1.0_f32; 4];
                for _ in 0..4 {
                    halves.on(&comm).write("x", &mut x).run(&mut steps)?;
                    expected[..2].iter_mut().for_each(|x| *x = *x * 2.0 + 2.0);
                    let second = &mut expected[2 - overlap as usize..];
                    second.iter_mut().for_each(|x| *x = *x * 3.0 + 3.0);
                    comm.stream().launch(&mut x, |x, ()| x.iter_mut().for_each(|x| *x -= 1.0))?;
                    expected.iter_mut().for_each(|x| *x -= 1.0);
                }
                assert_eq!(x.to_vec()?, expected);
                comm.finish()
            })
            .expect("the values are right");
        }
    }
}
