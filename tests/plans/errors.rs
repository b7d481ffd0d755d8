//! Refusals of a plan, when it is bound and when it runs.

use typed_nccl::error::{ArgumentFault, BindFault};
use typed_nccl::plan::build::{Checked, PlanBuilder, ring};
use typed_nccl::plan::{self, Bound, Values};
use typed_nccl::{
    Avg, CommConfig, Communicator, DType, Error, Host, Result, Scoped, Seat, Sum, Transfers, World,
};

use crate::ranks::spmd;

use super::declared::{checked, quiet_put, steps_of};
use super::shift;

type Rank<'id> = Communicator<Host<Scoped<'id>>>;

/// The error of a single rank that runs `program`.
fn alone(program: impl for<'id> Fn(&mut Rank<'id>) -> Result<()> + Sync) -> Error {
    let told = Host::spmd(1, |place| -> Result<Option<Error>> {
        let mut comm = place.init()?;
        let told = program(&mut comm).err();
        comm.finish()?;
        Ok(told)
    });
    let mut told = told.expect("a refusal does no harm");
    told.remove(0).expect("this is refused")
}

fn bound<W: World>(comm: &mut Communicator<W>, len: usize) -> Result<Bound<W>> {
    plan::bind(comm, shift(1).plan(), &Values::new().number("len", len))
}

fn fault(error: Error) -> (String, ArgumentFault) {
    match error {
        Error::BadArgument(bad) => (bad.buffer, bad.why),
        other => panic!("{other}"),
    }
}

#[test]
fn memory_that_does_not_fit() {
    let told = |program: for<'id> fn(&mut Rank<'id>) -> Result<()>| fault(alone(program));
    let missing = told(|comm| {
        let a = comm.device().zeros::<f32>(4)?;
        bound(comm, 4)?.on(comm).read("a", &a).run(&mut ())
    });
    assert_eq!(missing, ("b".into(), ArgumentFault::Missing));
    let unknown = told(|comm| {
        let a = comm.device().zeros::<f32>(4)?;
        bound(comm, 4)?.on(comm).read("c", &a).run(&mut ())
    });
    let known = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(unknown, ("c".into(), ArgumentFault::Unknown { known }));
    let twice = told(|comm| {
        let a = comm.device().zeros::<f32>(4)?;
        bound(comm, 4)?.on(comm).read("a", &a).read("a", &a).run(&mut ())
    });
    assert_eq!(twice, ("a".into(), ArgumentFault::Twice));
    let shorter = told(|comm| {
        let (a, mut b) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(3)?);
        bound(comm, 4)?.on(comm).read("a", &a).write("b", &mut b).run(&mut ())
    });
    assert_eq!(shorter, ("b".into(), ArgumentFault::Length { index: None, found: 3, needed: 4 }));
    let doubles = told(|comm| {
        let (a, mut b) = (comm.device().zeros::<f64>(4)?, comm.device().zeros::<f32>(4)?);
        bound(comm, 4)?.on(comm).read("a", &a).write("b", &mut b).run(&mut ())
    });
    assert!(matches!(doubles.1, ArgumentFault::DataType { .. }));
    let shared = told(|comm| {
        let (a, b) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        bound(comm, 4)?.on(comm).read("a", &a).read("b", &b).run(&mut ())
    });
    assert_eq!(shared, ("b".into(), ArgumentFault::ReadOnly));
    let windows = told(|comm| {
        let (a, mut b) = (comm.window::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        bound(comm, 4)?.on(comm).read("a", &a).write("b", &mut b).run(&mut ())
    });
    assert_eq!(windows, ("a".into(), ArgumentFault::Registration { needed: false }));
    let several = told(|comm| {
        let a = [comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?];
        bound(comm, 4)?.on(comm).read("a", &a).run(&mut ())
    });
    assert_eq!(several, ("a".into(), ArgumentFault::Count { found: 2, needed: 1 }));
    let swapped = told(|comm| {
        let two = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        let a = plan::Swapped::new(two.0, two.1);
        bound(comm, 4)?.on(comm).read("a", &a).run(&mut ())
    });
    assert_eq!(swapped, ("a".into(), ArgumentFault::Copies { needed: false }));
}

/// The first of two groups is refused on rank 0, when it is made, and so is the second: rank 1's does
/// not meet the next run's first.
#[test]
fn a_group_at_fault_in_the_middle() {
    let mut declared = PlanBuilder::new("twice");
    declared.ranks(2..);
    let (a, b) = (declared.input::<f32>("a", 4), declared.output::<f32>("b", 4));
    let (c, net) = (declared.output::<f32>("c", 4), declared.stream("net"));
    // Binding tries messages to others with memory that is not registered.
    declared.on(net).transfer(a, ring(0), b);
    declared.on(net).all_reduce(b, c, Sum);
    let declared = checked(declared);
    spmd::<Host>(2, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().transfers(Transfers::Registered).build();
        let builder = Communicator::builder().seat(seat).device(device).config(config);
        let mut comm = builder.build().connect()?;
        let mut plan = plan::bind(&mut comm, declared.plan(), &Values::new())?;
        let own = comm.rank().index() as f32;
        let device = comm.device().clone();
        let numbers = || device.nccl_zeros::<f32>(4);
        let (unknown, mut a) = (numbers()?, numbers()?);
        let [mut b, mut c] = [numbers()?, numbers()?];
        a.copy_from(&[own + 1.0; 4])?;
        let _known = [comm.register_buffer(&a)?, comm.register_buffer(&b)?];
        let first = if own == 0.0 { &unknown } else { &a };
        let outcome =
            plan.on(&comm).read("a", first).write("b", &mut b).write("c", &mut c).run(&mut ());
        if own == 0.0 {
            assert!(matches!(outcome, Err(Error::NotRegistered(_))), "{outcome:?}");
        } else {
            outcome?;
            c.to_vec().expect_err("rank 0 refused");
            // The other group's error.
            let _ = comm.sync(comm.stream());
        }
        plan.on(&comm).read("a", &a).write("b", &mut b).write("c", &mut c).run(&mut ())?;
        assert_eq!((b.to_vec()?, c.to_vec()?), (vec![own + 1.0; 4], vec![3.0; 4]));
        comm.finish()
    })
    .expect("the second run is right");
}

#[test]
fn memory_in_any_order() {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let mut shift = plan::bind(&mut comm, shift(1).plan(), &Values::new().number("len", 2))?;
        let a = comm.device().from_slice(&[comm.rank().index() as f32; 2])?;
        let mut b = comm.device().zeros::<f32>(2)?;
        shift.on(&comm).write("b", &mut b).read("a", &a).run(&mut ())?;
        assert_eq!(b.to_vec()?, [comm.ring(-1).index() as f32; 2]);
        comm.finish()
    })
    .expect("the order does not matter");
}

/// Every order of four, one of them an array, run after run of one plan.
#[test]
fn memory_of_several_in_any_order() {
    let mut declared = PlanBuilder::new("several");
    declared.ranks(1..);
    let [a, b] = ["a", "b"].map(|name| declared.in_out::<u32>(name, 1));
    let list = declared.array(2).in_out::<u32>("list", |_| 1);
    let (c, net) = (declared.output::<u32>("c", 1), declared.stream("net"));
    declared.on(net).all_reduce_in_place(a, Sum);
    declared.on(net).all_reduce_in_place(b, Sum);
    declared.on(net).all_reduce_in_place(list.at(0), Sum);
    declared.on(net).all_reduce(list.at(1), c, Sum);
    let declared = checked(declared);
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut plan = plan::bind(&mut comm, declared.plan(), &Values::new())?;
        let one = |value: u32| comm.device().from_slice(&[value]);
        let (mut a, mut b, mut list, mut c) = (one(1)?, one(10)?, [one(100)?, one(1000)?], one(0)?);
        for order in 0..256 {
            let order = [order % 4, order / 4 % 4, order / 16 % 4, order / 64];
            if (0..4).any(|one| !order.contains(&one)) {
                continue;
            }
            for (x, value) in [(&mut a, 1), (&mut b, 10), (&mut list[0], 100), (&mut c, 0)] {
                x.copy_from(&[value])?;
            }
            let mut given = (Some(&mut a), Some(&mut b), Some(&mut list), Some(&mut c));
            let run = order.into_iter().fold(plan.on(&comm), |run, one| match one {
                0 => run.write("a", given.0.take().expect("once")),
                1 => run.write("b", given.1.take().expect("once")),
                2 => run.write("list", given.2.take().expect("once")),
                _ => run.write("c", given.3.take().expect("once")),
            });
            run.run(&mut ())?;
            let all = [&a, &b, &list[0], &list[1], &c].map(|one| one.to_vec());
            let found: Vec<u32> = all.into_iter().collect::<Result<Vec<_>>>()?.concat();
            assert_eq!(found, [2, 20, 200, 1000, 2000], "{order:?}");
        }
        comm.finish()
    })
    .expect("the order does not matter");
}

/// The other ranks do not wait for one that refuses, and the communicator is unharmed.
#[test]
fn the_others_are_told_of_a_refusal() {
    let told = Host::spmd(2, |place| -> Result<Option<Error>> {
        let mut comm = place.init()?;
        let mut shift = bound(&mut comm, 4)?;
        let (a, mut b) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        let mut short = comm.device().zeros::<f32>(3)?;
        let run = match comm.rank().index() {
            0 => shift.on(&comm).read("a", &a).write("b", &mut short).run(&mut ()),
            _ => shift.on(&comm).read("a", &a).write("b", &mut b).run(&mut ()),
        };
        let told = run.and_then(|()| comm.sync(comm.stream())).err();
        comm.barrier()?;
        shift.on(&comm).read("a", &a).write("b", &mut b).run(&mut ())?;
        b.to_vec()?;
        comm.finish()?;
        Ok(told)
    })
    .expect("the communicator is unharmed");
    assert!(matches!(told[0], Some(Error::BadArgument(_))), "{:?}", told[0]);
    assert!(matches!(told[1], Some(Error::Refused(_))), "{:?}", told[1]);
}

/// Compute, then reduce.
fn computed() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("computed");
    plan.ranks(1..);
    let x = plan.in_out::<f32>("x", 4);
    let net = plan.stream("net");
    plan.on(net).run("fill").argument(7).reads(x).writes(x);
    plan.on(net).all_reduce_in_place(x, Sum);
    plan.check().expect("a plan for any number of ranks")
}

#[test]
fn a_step_that_fails_is_told_to_the_others() {
    let told = Host::spmd(2, |place| -> Result<Option<Error>> {
        let mut comm = place.init()?;
        let mut plan = plan::bind(&mut comm, computed().plan(), &Values::new())?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let fails = comm.rank().index() == 1;
        let mut steps = steps_of(&comm, |call| match fails {
            true => Err(Error::other(format!("the disk of step `{}` is full", call.name()))),
            false => Ok(()),
        });
        let run = plan.on(&comm).write("x", &mut x).run(&mut steps);
        let told = run.and_then(|()| comm.sync(comm.stream())).err();
        comm.barrier()?;
        comm.finish()?;
        Ok(told)
    })
    .expect("the communicator is unharmed");
    let refused = told[0].as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(
        refused.ends_with("rank 1 refused its part: the disk of step `fill` is full"),
        "{refused}"
    );
    assert!(matches!(told[1], Some(Error::Other(_))), "{:?}", told[1]);
}

/// A step's operands are its own: none twice, and none both read and written.
#[test]
fn a_step_gets_what_the_plan_says() {
    let told = alone(|comm| {
        let mut plan = plan::bind(comm, computed().plan(), &Values::new())?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let mut steps = steps_of(comm, |call| {
            let why =
                |error: Option<Error>| error.map(|error| error.to_string()).unwrap_or_default();
            let updated = why(call.read::<f32>(0).err());
            assert!(updated.contains("also written: take it with `write`"), "{updated}");
            let other = why(call.write::<f64>(0).err());
            assert!(other.contains("asks for f64, and the memory is f32"), "{other}");
            let _taken = call.write::<f32>(0)?;
            let again = why(call.write::<f32>(0).err());
            assert!(again.contains("is taken"), "{again}");
            assert_eq!(call.number(0)?, 7);
            let none = why(call.number(3).err());
            assert!(none.contains("step `fill`: it has no number 3"), "{none}");
            Ok(())
        });
        plan.on(comm).write("x", &mut x).run(&mut steps)?;
        plan.on(comm).write("x", &mut x).run(&mut ())
    });
    assert!(told.to_string().contains("nothing runs it"), "{told}");
}

#[test]
fn another_communicator_than_it_was_bound_to() {
    let told = alone(|comm| {
        let mut shift = bound(comm, 4)?;
        let (a, mut b) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        let mut other = comm.split::<Other>(0, 0)?;
        let mut third = plan::bind(&mut other, computed().plan(), &Values::new())?;
        let mut x = other.device().zeros::<f32>(4)?;
        let mut fill = steps_of(&other, |_| Ok(()));
        third.on(&other).write("x", &mut x).run(&mut fill)?;
        let again = other.split::<Other>(0, 0)?;
        let elsewhere = third.on(&again).write("x", &mut x).run(&mut fill);
        assert!(matches!(elsewhere, Err(Error::BoundElsewhere(_))));
        shift.on(comm).read("a", &a).write("b", &mut b).run(&mut ())?;
        elsewhere
    });
    let text = told.to_string();
    assert!(text.contains("plan `computed` is bound to another communicator than this"), "{text}");
    assert!(text.ends_with("bind it again, to this one; nothing was sent"), "{text}");
}

typed_nccl::tag!(Other);

/// A run after the only one was not checked. Every rank is refused, and nothing hangs.
#[test]
fn a_plan_for_one_run_runs_once() {
    let mut plan = PlanBuilder::new("start");
    plan.ranks(1..);
    plan.once();
    let x = plan.in_out::<f32>("x", 1);
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(x, Sum);
    let checked = plan.check().expect("a plan that is right");
    let told = Host::spmd(2, |place| -> Result<Error> {
        let mut comm = place.init()?;
        let mut start = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        let mut x = comm.device().from_slice(&[1.0_f32])?;
        start.on(&comm).write("x", &mut x).run(&mut ())?;
        let again = start.on(&comm).write("x", &mut x).run(&mut ());
        assert_eq!(x.to_vec()?, [2.0]);
        // Bound again, it runs again.
        let mut start = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        start.on(&comm).write("x", &mut x).run(&mut ())?;
        assert_eq!(x.to_vec()?, [4.0]);
        comm.finish()?;
        Ok(again.expect_err("it has run"))
    });
    for told in told.expect("a refusal does no harm") {
        assert!(matches!(&told, Error::RanAlready(run) if run.plan == "start"), "{told}");
        assert!(told.to_string().contains("bind it again for another run"), "{told}");
    }
}

/// After a split that leaves a rank out, the number of ranks differs.
#[test]
fn a_communicator_of_another_size() {
    let told = Host::spmd(3, |place| -> Result<String> {
        let mut comm = place.init()?;
        let mut first = comm.split::<Other>(0, 0)?;
        let mut plan = plan::bind(&mut first, computed().plan(), &Values::new())?;
        let rank = first.rank().index();
        let color = (rank != 2).then_some(0);
        let Some(fewer) = first.split_some::<Other>(color, 0)? else { return Ok(String::new()) };
        let mut x = fewer.device().zeros::<f32>(4)?;
        let told = plan.on(&fewer).write("x", &mut x).run(&mut ());
        Ok(told.err().map(|error| error.to_string()).unwrap_or_default())
    })
    .expect("nothing was sent");
    assert!(told[0].contains("bound to Other of 3 ranks, and this Other has 2"), "{}", told[0]);
}

#[test]
fn what_cannot_be_bound() {
    let why = |fill: fn(&mut PlanBuilder)| {
        let mut plan = PlanBuilder::new("odd");
        plan.ranks(1..);
        fill(&mut plan);
        let checked = checked(plan);
        let told = alone(|comm| plan::bind(comm, checked.plan(), &Values::new()).map(drop));
        let Error::BadPlan(told) = told else { panic!("{told}") };
        told.why
    };
    let truncated = why(|plan| {
        let x = plan.in_out::<i32>("x", 4);
        let s = plan.stream("s");
        plan.on(s).all_reduce_in_place(x, Avg);
    });
    assert_eq!(truncated, BindFault::Averages { dtype: DType::I32 });
    let untyped = why(|plan| {
        let x = plan.in_out::<plan::build::Generic>("x", 4);
        let s = plan.stream("s");
        plan.on(s).all_reduce_in_place(x, Sum);
    });
    assert!(matches!(untyped, BindFault::NoElement { .. }), "{untyped}");
}

/// `AnyDevice` does not show the device of memory, and local work asks no communicator.
#[test]
fn memory_of_another_device() -> Result<()> {
    let mut plan = PlanBuilder::new("local");
    plan.ranks(1..);
    let (x, y) = (plan.in_out::<f32>("x", 4), plan.input::<f32>("y", 4));
    let s = plan.stream("s");
    plan.on(s).update(x, Sum, y);
    let local = checked(plan);
    let mut comm = Seat::local(1).remove(0).init(Host::any(0)?)?;
    let mut local = plan::bind(&mut comm, local.plan(), &Values::new())?;
    let [mut here, mut there] = [Host::any(0)?, Host::any(5)?]
        .map(|device| device.from_slice(&[1.0_f32; 4]).expect("there is memory"));
    let told = local.on(&comm).write("x", &mut here).read("y", &there).run(&mut ());
    let Err(Error::OtherDevice(it)) = told else { panic!("y is elsewhere: {told:?}") };
    assert_eq!((it.operation, it.found, it.needed), ("run", 5, 0));
    let told = local.on(&comm).read("y", &here).write("x", &mut there).run(&mut ());
    assert!(matches!(&told, Err(Error::OtherDevice(it)) if it.found == 5), "{told:?}");
    assert_eq!((here.to_vec()?, there.to_vec()?), (vec![1.0; 4], vec![1.0; 4]));
    let y = comm.device().from_slice(&[2.0_f32; 4])?;
    local.on(&comm).write("x", &mut here).read("y", &y).run(&mut ())?;
    assert_eq!(here.to_vec()?, [3.0; 4]);
    comm.finish()
}

#[test]
fn a_put_without_a_signal_takes_one() {
    let quiet = quiet_put(4);
    let told = alone(|comm| plan::bind(comm, quiet.plan(), &Values::new()).map(drop));
    assert!(told.to_string().contains("`CommConfig::builder().signals(2)`"), "{told}");
}

#[test]
fn a_mesh_that_is_not_the_communicator() {
    let mut plan = PlanBuilder::new("mesh");
    let (rows, cols) = (plan.axis("rows", 1..), plan.axis("cols", 1..=4));
    let x = plan.in_out::<f32>("x", 4);
    let s = plan.stream("s");
    let row = plan.communicator("row", [cols]);
    plan.on(s).among(row).all_reduce_in_place(x, Sum);
    let _ = rows;
    let checked = checked(plan);
    let why = |values: Values| {
        let told = alone(|comm| plan::bind(comm, checked.plan(), &values).map(drop));
        let Error::BadPlan(told) = told else { panic!("{told}") };
        told.why
    };
    let six = why(Values::new().axis("rows", 2).axis("cols", 3));
    assert_eq!(six.to_string(), "rows = 2, cols = 3 make 6 ranks, and the communicator has 1");
    let wide = why(Values::new().axis("rows", 1).axis("cols", 5));
    assert!(matches!(wide, BindFault::NotClaimed(_)));
    assert_eq!(wide.to_string(), "`cols` is 5 ranks, and the plan is for 1 to 4");
    assert_eq!(why(Values::new().axis("rows", 1)), BindFault::NoExtent { axis: "cols".to_owned() });
    assert!(why(Values::new().axis("depth", 1)).to_string().contains("no axis `depth`"));
    let unknown = why(Values::new().number("len", 1));
    assert_eq!(unknown.to_string(), "it has no parameter `len`; what it has: none");
}

/// It is refused without being walked: the error has the loop's line, and a remedy for the caller
/// of `bind`.
#[test]
fn a_loop_that_is_too_long_to_be_checked() {
    let mut plan = PlanBuilder::new("long");
    plan.ranks(1..);
    let k = plan.param("k", 1..);
    let a = plan.local::<f32>("a", 1);
    let net = plan.stream("net");
    let line = line!() + 1;
    plan.for_each("i", ..k, |plan, _| {
        plan.on(net).run("work").writes(a);
    });
    let plan = plan.check().expect("a plan");
    let bind = |k: usize| {
        alone(|comm| plan::bind(comm, plan.plan(), &Values::new().number("k", k)).map(drop))
    };
    for k in [4_000_000_000, i64::MAX as usize] {
        let text = bind(k).to_string();
        assert!(text.contains("this is more than what is checked"), "{text}");
        assert!(text.contains(&format!("tests/plans/errors.rs:{line}:")), "{text}");
        assert!(text.contains("choose smaller sizes"), "{text}");
    }
}
