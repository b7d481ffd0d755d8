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

/// A graph names all of the buffer, whatever part the step that launches it has.
#[test]
fn a_graph_in_a_step_waits_for_the_other_half() {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let values = Values::new().number("h", 2);
        let mut halves = plan::bind(&mut comm, halves(0).plan(), &values)?;
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        let double = |x: &mut [f32]| x.iter_mut().for_each(|x| *x *= 2.0);
        let mut graph = comm.capture(|g| g.launch(&mut x, move |x, ()| double(x)))?;
        for _ in 0..2 {
            let mut steps = |call: &mut Call<'_, Host<_>>| {
                if call.name() == "second" {
                    return graph.launch_on(&comm, call.stream());
                }
                let mut half = call.write::<f32>(0)?;
                call.stream().launch(&mut half, |half, ()| {
                    std::thread::sleep(Duration::from_millis(50));
                    half.iter_mut().for_each(|x| *x += 1.0);
                })
            };
            halves.on(&comm).write("x", &mut x).run(&mut steps)?;
        }
        assert_eq!(x.to_vec()?, [10.0, 10.0, 4.0, 4.0]);
        comm.finish()
    })
    .expect("the graph is ordered");
}

/// Work on one buffer on each of two streams.
fn two() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("two");
    plan.ranks(1..);
    let h = plan.param("h", 1..);
    for name in ["first", "second"] {
        let (x, stream) = (plan.in_out::<f32>(name, h), plan.stream(name));
        plan.on(stream).run(name).reads(x).writes(x);
    }
    plan.check().expect("a plan that is right")
}

#[test]
fn streams_on_two_views_of_one_buffer_run_side_by_side() {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let mut two = plan::bind(&mut comm, two().plan(), &Values::new().number("h", 2))?;
        let mut x = comm.device().from_slice(&[1.0_f32, 2.0, 3.0, 4.0])?;
        for round in 0..3 {
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
            let [mut low, mut high] = x.parts_mut([2, 2]);
            two.on(&comm).write("first", &mut low).write("second", &mut high).run(&mut steps)?;
            if round == 1 {
                // What is done outside comes after the run, and before the next one.
                comm.stream().launch(&mut x, |x, ()| x.iter_mut().for_each(|x| *x += 1.0))?;
            }
        }
        assert_eq!(x.to_vec()?, [10.0, 18.0, 26.0, 34.0]);
        comm.finish()
    })
    .expect("the views overlap");
}

/// The views change places between runs, and the plan has no event for that.
#[test]
fn views_of_one_buffer_are_right_whatever_is_late() {
    for seed in 0..16 {
        spmd::<Host>(1, |place| {
            let mut comm = place.init()?;
            let mut two = plan::bind(&mut comm, two().plan(), &Values::new().number("h", 2))?;
            two.set_timing(Timing::Shaken(seed));
            let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
            let mut alone = comm.device().from_slice(&[1.0_f32; 2])?;
            let mut steps = |call: &mut Call<'_, Host<_>>| -> Result<()> {
                let factor = if call.name() == "first" { 2.0 } else { 3.0 };
                let mut half = call.write::<f32>(0)?;
                call.stream().launch(&mut half, move |half, ()| {
                    half.iter_mut().for_each(|x| *x = *x * factor + factor);
                })
            };
            let mut expected = [1.0_f32; 4];
            let mut apply = |half: usize, factor: f32| {
                let half = &mut expected[2 * half..][..2];
                half.iter_mut().for_each(|x| *x = *x * factor + factor);
            };
            for turn in [0, 1, 1, 0, 2, 1, 0] {
                let [mut low, mut high] = x.parts_mut([2, 2]);
                let (first, second) = match turn {
                    0 => (&mut low, &mut high),
                    1 => (&mut high, &mut low),
                    _ => (&mut alone.slice_mut(..), &mut low),
                };
                two.on(&comm).write("first", first).write("second", second).run(&mut steps)?;
                match turn {
                    0 => (apply(0, 2.0), apply(1, 3.0)),
                    1 => (apply(1, 2.0), apply(0, 3.0)),
                    _ => (apply(0, 3.0), ()),
                };
            }
            assert_eq!(x.to_vec()?, expected);
            assert_eq!(alone.to_vec()?, [4.0; 2]);
            comm.finish()
        })
        .expect("the values are right");
    }
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

/// Two buffers: `p` on one stream writes the first half of `x` and the second of `y`, `q` on another
/// the other halves.
fn quarters() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("quarters");
    plan.ranks(1..);
    let h = plan.param("h", 1..);
    let (x, y) = (plan.in_out::<f32>("x", h * 2), plan.in_out::<f32>("y", h * 2));
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    let parts = [(one, "p", x.slice(..h), y.slice(h..)), (other, "q", x.slice(h..), y.slice(..h))];
    for (stream, name, first, second) in parts {
        plan.on(stream).run(name).reads(first).reads(second).writes(first).writes(second);
    }
    plan.check().expect("a plan that is right")
}

/// How long a stream is given to run what it must not run yet.
const A_WHILE: Duration = Duration::from_millis(50);

#[test]
fn memory_that_changes_its_name_between_runs_is_waited_for() {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let values = Values::new().number("h", 2);
        let mut quarters = plan::bind(&mut comm, quarters().plan(), &values)?;
        let mut a = comm.device().from_slice(&[1.0_f32; 4])?;
        let mut b = comm.device().from_slice(&[1.0_f32; 4])?;
        let (goes, may_go) = mpsc::channel();
        let (tells, hears) = mpsc::channel();
        let mut held = Some(may_go);
        let mut add = |call: &mut Call<'_, Host<_>>, much: f32| -> Result<()> {
            let held = if call.name() == "p" { held.take() } else { None };
            let (mut first, mut second) = (call.write::<f32>(0)?, call.write::<f32>(1)?);
            let (tells, name) = (tells.clone(), call.name().to_owned());
            call.stream().launch((&mut first, &mut second), move |(first, second), ()| {
                if let Some(held) = held {
                    held.recv_timeout(Duration::from_secs(60)).expect("it is told to go on");
                }
                first.iter_mut().chain(second).for_each(|x| *x = *x * 2.0 + much);
                let _ = tells.send(name);
            })
        };
        let mut steps = |call: &mut Call<'_, Host<_>>| add(call, 1.0);
        // `p` has not written its quarters of `a` when `q` of the next run could.
        quarters.on(&comm).write("x", &mut a).write("y", &mut b).run(&mut steps)?;
        quarters.on(&comm).write("x", &mut b).write("y", &mut a).run(&mut steps)?;
        assert_eq!(hears.recv().as_deref(), Ok("q"));
        assert!(hears.recv_timeout(A_WHILE).is_err(), "the next run waits for the first one");
        goes.send(()).expect("it waits");
        assert_eq!((a.to_vec()?, b.to_vec()?), (vec![7.0; 4], vec![7.0; 4]));
        comm.finish()
    })
    .expect("the runs are ordered");
}

#[test]
fn work_of_a_step_that_failed_is_waited_for() {
    let mut plan = PlanBuilder::new("fails");
    plan.ranks(1..);
    let h = plan.param("h", 1..);
    let x = plan.in_out::<f32>("x", h * 2);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).run("p").reads(x.slice(..h)).writes(x.slice(..h));
    plan.on(other).run("q").reads(x.slice(h..)).writes(x.slice(h..));
    plan.on(other).after([one]).run("r").reads(x.slice(..h)).writes(x.slice(..h));
    let fails = plan.check().expect("a plan that is right");
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let mut fails = plan::bind(&mut comm, fails.plan(), &Values::new().number("h", 2))?;
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        let (goes, may_go) = mpsc::channel();
        let (tells, hears) = mpsc::channel();
        let mut held = Some(may_go);
        let mut steps = |call: &mut Call<'_, Host<_>>| -> Result<()> {
            let held = if call.name() == "r" { held.take() } else { None };
            let fails = held.is_some();
            let mut half = call.write::<f32>(0)?;
            let (tells, is_p) = (tells.clone(), call.name() == "p");
            call.stream().launch(&mut half, move |half, ()| {
                if is_p {
                    let _ = tells.send(());
                }
                if let Some(held) = held {
                    held.recv_timeout(Duration::from_secs(60)).expect("it is told to go on");
                }
                half.iter_mut().for_each(|x| *x = *x * 2.0 + 1.0);
            })?;
            // There is no such region.
            if fails { call.write::<f32>(1).map(drop) } else { Ok(()) }
        };
        let error = fails.on(&comm).write("x", &mut x).run(&mut steps).expect_err("r fails");
        assert!(error.to_string().contains("writes no region 1"), "{error}");
        fails.on(&comm).write("x", &mut x).run(&mut steps)?;
        hears.recv().expect("`p` of the first run");
        assert!(hears.recv_timeout(A_WHILE).is_err(), "`p` waits for `r` of the first run");
        goes.send(()).expect("it waits");
        // `p`, `r`, `p`, `r` on the first half, `q` twice on the second.
        assert_eq!(x.to_vec()?, [31.0, 31.0, 7.0, 7.0]);
        comm.finish()
    })
    .expect("the runs are ordered");
}
