//! Values that belong to one communicator, type or run are not accepted for another.

use typed_nccl::error::ArgumentFault;
use typed_nccl::plan::build::{Checked, PlanBuilder, ring};
use typed_nccl::plan::{self, Values};
use typed_nccl::{CommConfig, Error, Host, Rank, Result, Seat, SignalSlot, Signals, Team, tag};

use crate::ranks::spmd;

tag!(Other);

fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn a_signal_of_another_communicator() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init_with(CommConfig::builder().signals(4).build())?;
        let mut other = comm.split::<Other>(0, 0)?;
        let (window, _other) = (comm.window::<f32>(1)?, other.window::<f32>(1)?);
        let (own, foreign) = (comm.signal_in(0, 3)?, other.signal_in(0, 3)?);
        if comm.rank().index() == 0 {
            let told = |outcome: Result<()>| {
                let error = outcome.expect_err("another communicator's");
                assert!(matches!(&error, Error::WrongCommunicator(_)), "{error}");
                assert!(error.is_refusal(), "{error}");
                says(&error, &["a signal of Other#", "was used on World#", "make it there"]);
            };
            told(comm.signal_slot(1, foreign));
            told(comm.put_signal(&window, 1, window.at(0).raising(foreign)));
            let mut awaited = Signals::new();
            awaited.expect_in(1, foreign, 1);
            told(comm.wait_signals(&awaited));
            comm.signal_slot(1, own)?;
        } else {
            let mut awaited = Signals::new();
            awaited.expect_in(0, own, 1).expect_in(0, own, 2);
            comm.wait_signals(&awaited)?;
            let error = comm.sync(comm.stream()).expect_err("told of the refusals");
            says(&error, &["rank 0 refused", "a signal of Other#"]);
        }
        // Every communicator has the first signal, by either name.
        comm.signal_slot(comm.ring(1), SignalSlot::default())?;
        comm.signal_slot(comm.ring(1), comm.signal_in(0, 0)?)?;
        let mut both = Signals::new();
        both.expect(comm.ring(1)).expect_in(comm.ring(1), comm.signal_in(0, 0)?, 1);
        comm.wait_signals(&both)?;
        comm.sync(comm.stream())?;
        other.finish()?;
        comm.finish()
    })
}

#[test]
fn declared_lengths_of_another_communicator() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let other = comm.split::<Other>(0, 0)?;
        let (splits, blocks) = (other.splits(&[1, 1])?, other.blocks(1)?);
        let send = comm.device().from_slice(&[1_i32, 2])?;
        let mut recv = comm.device().zeros::<i32>(2)?;
        let mut one = comm.device().zeros::<i32>(1)?;
        let told = |outcome: Result<()>| {
            let error = outcome.expect_err("another communicator's");
            assert!(matches!(&error, Error::WrongCommunicator(_)), "{error}");
            says(&error, &["a declaration of lengths of Other#", "make it there"]);
        };
        told(comm.all_to_all_v(&send, &mut recv, &splits));
        told(comm.all_gather_v(&one, &mut recv, &blocks));
        told(comm.reduce_scatter_v(&send, &mut one, typed_nccl::Sum, &blocks));
        told(comm.gather_v_in_place(&mut one, &blocks, 0));
        told(comm.scatter_v_in_place(&mut one, &blocks, 0));
        let own = comm.splits(&[1, 1])?;
        comm.all_to_all_v(&send, &mut recv, &own)?;
        let rank = comm.rank().index() as i32;
        assert_eq!(recv.to_vec()?, [rank + 1; 2]);
        other.finish()?;
        comm.finish()
    })
}

#[test]
fn declared_lengths_that_nothing_can_hold() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let first = comm.rank().index() == 0;
        let counts = if first { [usize::MAX, 2] } else { [0, 0] };
        let error = comm.splits(&counts).expect_err("more than all memory");
        let sent = format!("rank 0 would send {:?} elements to the ranks", [usize::MAX, 2]);
        says(&error, &["splits: ", &sent, "declare fewer on all ranks"]);
        let error = comm.splits(&[usize::MAX / 3, 0]).expect_err("more than all memory");
        says(&error, &["rank 0 would receive", "from the ranks"]);
        let error = comm.blocks(usize::MAX / 2).expect_err("more than all memory");
        says(&error, &["blocks: rank", "would receive", "from the ranks"]);
        assert!(error.is_refusal() && matches!(error, Error::SplitsTooLong(_)));
        comm.splits(&[3, 4])?;
        comm.finish()
    })
}

/// Of any integer type; a rank with one below 0 is refused, and the others are told.
#[test]
fn lengths_of_other_types() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let first = comm.rank().index() == 0;
        let counts: Vec<u32> = vec![1, 2];
        let lens = comm.splits(&counts)?.recv_len();
        assert_eq!(lens, comm.splits(&[1_i64, 2])?.recv_len());
        assert_eq!(lens, comm.splits(&[1, 2])?.recv_len());
        let empty: &[u8] = &[];
        let error = comm.splits(empty).expect_err("no count for either rank");
        assert!(matches!(error, Error::BadSplits(bad) if bad.found == 0));
        assert_eq!(comm.blocks(3_u8)?.total(), comm.blocks(3)?.total());
        let refused = [
            comm.splits(&[2, if first { -7 } else { 7 }]).map(drop),
            comm.blocks(if first { -7 } else { 7 }).map(drop),
        ];
        for error in refused.map(|refused| refused.expect_err("rank 0 has one below 0")) {
            match (&error, first) {
                (Error::BadBlockLen(bad), true) => assert_eq!(bad.found, -7),
                (Error::ValueMismatch(_), false) => says(&error, &["rank 0", "is below 0"]),
                _ => panic!("{error}"),
            }
            assert!(!first || error.is_refusal(), "{error}");
        }
        comm.barrier()?;
        comm.finish()
    })
}

#[test]
fn host_values_of_different_types() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let odd = comm.rank().index() == 1;
        let outcome = match odd {
            true => comm.gather_values(&7_u32).map(drop),
            false => comm.gather_values(&5_i32).map(drop),
        };
        let told = |outcome: Result<()>| {
            let error = outcome.expect_err("the bytes of one read as the other");
            assert!(matches!(error, Error::ValueMismatch(_)), "{error}");
            let (rank, theirs, own) = if odd { (0, "i32", "u32") } else { (1, "u32", "i32") };
            let gave = format!("rank {rank} gave a `{theirs}` (at tests/stamps.rs:");
            says(&error, &[&gave, &format!("this rank a `{own}` (at tests/stamps.rs:")]);
        };
        told(outcome);
        let outcome = match odd {
            true => comm.broadcast_value(&7_u32, 0).map(drop),
            false => comm.broadcast_value(&5_i32, 0).map(drop),
        };
        told(outcome);
        let outcome = match odd {
            true => comm.agree(7_u32).map(drop),
            false => comm.agree(5_i32).map(drop),
        };
        let error = outcome.expect_err("they have other types");
        says(&error, &["agree: rank "]);
        // Our calls are distinguished from the program's.
        let outcome = match odd {
            true => comm.blocks(3).map(drop),
            false => comm.gather_values(&3_usize).map(drop),
        };
        let error = outcome.expect_err("another call");
        says(&error, &["called"]);
        assert_eq!(comm.gather_values(&comm.rank().index())?, [0, 1, 2]);
        comm.finish()
    })
}

#[test]
fn a_host_value_without_end() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let first = comm.rank().index() == 0;
        let len = if first { usize::MAX } else { 3 };
        let error = comm.gather_values(&vec![(); len]).expect_err("it would not end");
        match first {
            true => says(&error, &["more than 67108864 parts", "send a buffer instead"]),
            false => {
                says(&error, &["rank 0 called a host-side call with a value that cannot be sent"])
            }
        }
        assert_eq!(comm.gather_values(&vec![(); 3])?, [vec![(); 3], vec![(); 3]]);
        assert_eq!(comm.broadcast_value(&vec![Some(()), None], 1)?, [Some(()), None]);
        comm.finish()
    })
}

#[test]
fn ranks_and_signals_without_end() -> Result<()> {
    for n in [4097, usize::MAX] {
        let mut seats = Seat::local(n);
        assert_eq!((seats.len(), seats[0].size()), (1, n));
        let error = seats.remove(0).init(Host::local()?).expect_err("too many");
        let parts = [&format!("init of {n} ranks"), "4096 at most", "ask for fewer"];
        says(&error, &parts.map(AsRef::as_ref));
        let error = typed_nccl::spmd::<Host>(n, |_| Ok(())).expect_err("too many");
        assert!(matches!(error, Error::InitFailed(_)), "{error}");
    }
    for (contexts, signals) in [(1, u32::MAX), (u32::MAX, u32::MAX), (1 << 16, 1 << 16)] {
        let config = CommConfig::builder().contexts(contexts).signals(signals).build();
        let errors = Host::spmd(2, |place| -> Result<Error> {
            Ok(place.init_with(config.clone()).expect_err("too many"))
        })?;
        for error in errors {
            let asked = format!("{contexts} contexts of {signals} signals");
            says(&error, &["init of 2 ranks", &asked, "67108864", "configure fewer"]);
        }
    }
    let one = Host::spmd(1, |place| -> Result<Team> { Ok(place.init()?.world_team()) })?;
    let mut team = one[0];
    (team.size, team.first, team.stride) = (usize::MAX, 1, usize::MAX);
    assert_eq!(team.to_world(0), Some(Rank::from_index(1)));
    assert_eq!([1, 2, usize::MAX].map(|index| team.to_world(index)), [None; 3]);
    Ok(())
}

/// Every rank puts `a` into the right neighbour's `w`.
fn pass() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("pass");
    plan.ranks(2..);
    let a = plan.window().input::<f32>("a", 2);
    let w = plan.window().output::<f32>("w", 2);
    let (came, read) = (plan.signal("came"), plan.signal("read"));
    let net = plan.stream("net");
    plan.on(net).put(a, ring(1), w).signal(came);
    plan.on(net).wait([came.from(ring(-1))]);
    plan.on(net).signal(read, ring(-1));
    plan.on(net).wait([read.from(ring(1))]);
    plan.check().expect("a plan for any number of ranks")
}

#[test]
fn another_window_for_one_name_of_a_plan() -> Result<()> {
    let pass = pass();
    typed_nccl::spmd::<Host>(3, |place| {
        let mut comm = place.init_with(CommConfig::builder().signals(2).build())?;
        let rank = comm.rank().index();
        let mut a = comm.window::<f32>(2)?;
        let (mut first, mut second) = (comm.window::<f32>(2)?, comm.window::<f32>(2)?);
        a.copy_from(&[rank as f32; 2])?;
        let mut pass = plan::bind(&mut comm, pass.plan(), &Values::new())?;
        let came = [comm.ring(-1).index() as f32; 2];
        // Any window that is the same on all ranks works, also if it changes.
        for run in 0..6 {
            let w = if run % 3 == 0 { &mut second } else { &mut first };
            pass.on(&comm).read("a", &a).write("w", w).run(&mut ())?;
            assert_eq!(w.to_vec()?, came);
            // Nothing is overwritten before it is read.
            comm.barrier()?;
        }
        // Another one on rank 1: whichever comes later refuses, and the rest get the error.
        let w = if rank == 1 { &mut second } else { &mut first };
        let outcome = pass.on(&comm).read("a", &a).write("w", w).run(&mut ());
        let outcome = outcome.and_then(|()| comm.sync(comm.stream()));
        comm.barrier()?;
        let outcome = outcome.and_then(|()| comm.sync(comm.stream()));
        let told = comm.gather_values(&outcome.is_err())?;
        assert!(told.iter().filter(|told| **told).count() >= 2, "{told:?}");
        if let Err(error) = &outcome {
            says(error, &["plan `pass`: `w` is window #", "gave window #", "for the same run"]);
        }
        let refused = matches!(&outcome, Err(Error::BadArgument(bad))
            if matches!(bad.why, ArgumentFault::OtherWindow { .. }));
        assert!(comm.gather_values(&refused)?.contains(&true));
        // Two ranks may have refused, and each host wait reports one.
        while comm.sync(comm.stream()).is_err() {}
        comm.finish()
    })
}

#[test]
fn a_window_of_another_length_on_one_rank() -> Result<()> {
    let pass = pass();
    typed_nccl::spmd::<Host>(2, |place| {
        let mut comm = place.init_with(CommConfig::builder().signals(2).build())?;
        let a = comm.window::<f32>(2)?;
        let (mut long, mut fits) = (comm.window::<f32>(4)?, comm.window::<f32>(2)?);
        let mut pass = plan::bind(&mut comm, pass.plan(), &Values::new())?;
        let w = if comm.rank().index() == 1 { &mut long } else { &mut fits };
        let outcome = pass.on(&comm).read("a", &a).write("w", w).run(&mut ());
        let error = outcome.and_then(|()| comm.sync(comm.stream())).expect_err("told");
        says(&error, &["`w` has 4 elements, the plan's has 2"]);
        // The next run is in step again.
        pass.on(&comm).read("a", &a).write("w", &mut fits).run(&mut ())?;
        comm.sync(comm.stream())?;
        comm.finish()
    })
}
