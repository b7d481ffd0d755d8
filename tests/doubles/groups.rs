//! Groups and cliques: the calls between start and end, and the effect of failures inside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nccl_sys::Function::{
    self, ncclAllReduce, ncclBroadcast, ncclCommAbort, ncclCommDestroy, ncclCommInitRankConfig,
    ncclGroupEnd, ncclGroupStart, ncclRecv, ncclSend,
};
use nccl_sys::ncclResult_t;
use typed_nccl::error::SizeVariable;
use typed_nccl::{
    AnyDevice, Clique, Communicator, Cuda, Error, Max, Result, Root, Sum, group, tag,
};

use crate::common::{
    Wire, address, alone, assert_silent, calls, clear, connect, count, handle, says,
};
use crate::scenario::{NEWEST, cuda, nccl, on, release};

#[test]
fn calls_are_in_program_order_in_one_group() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
        let (mut sum, mut all) = (comm.device().zeros::<f64>(4)?, comm.device().zeros::<f32>(8)?);
        let wire = Wire::of(&comm)?;
        comm.group(|g| {
            g.all_reduce_in_place(&mut sum, Sum)?;
            g.send(&x, 0)?;
            g.all_gather(&x, &mut all)?;
            g.recv(&mut y, 0)
        })?;
        let called: Vec<_> = wire.calls().iter().map(|call| call.function).collect();
        let between = [ncclAllReduce, ncclSend, Function::ncclAllGather, ncclRecv];
        assert_eq!(called[0], ncclGroupStart);
        assert_eq!(called[1..5], between);
        assert_eq!(called[5..], [ncclGroupEnd]);
        comm.finish()
    });
}

#[test]
fn a_group_of_one_or_none_is_none() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut x = comm.device().zeros::<f32>(8)?;
        clear();
        comm.group(|_| Ok::<_, Error>(()))?;
        assert_silent("an empty group");
        comm.group(|g| g.all_reduce_in_place(&mut x, Sum))?;
        assert_eq!(nccl().called(), [ncclAllReduce]);
        clear();
        comm.group(|g| g.broadcast_in_place(&mut x, 0))?;
        assert_eq!(nccl().called(), [ncclBroadcast]);
        comm.finish()
    });
}

#[test]
fn a_closure_that_panics_calls_nothing() {
    on(NEWEST, || gives_up(true));
}

#[test]
fn a_closure_that_returns_an_error_calls_nothing() {
    on(NEWEST, || gives_up(false));
}

fn gives_up(panics: bool) -> Result<()> {
    let mut comm = alone()?;
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
    clear();
    // One bad operation refuses all of them.
    let outcome = comm.group(|g| {
        g.send(&x, 0)?;
        g.recv(&mut y, 0)?;
        g.send(x.slice(4..9), 0)
    });
    assert_error!(outcome, BadRange, "4..9");
    comm.health()?;
    if panics {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            comm.group(|g| {
                g.send(&x, 0)?;
                panic!("in the closure");
                #[expect(unreachable_code, reason = "the type of the closure")]
                Ok::<(), Error>(())
            })
        }));
        assert!(panicked.is_err());
    } else {
        let outcome = comm.group(|g| {
            g.send(&x, 0)?;
            let own = SizeVariable { found: "its own".into() };
            Err::<(), _>(Error::SizeVariable(Box::new(own)))
        });
        assert_error!(outcome, SizeVariable, "its own");
    }
    assert_silent("a group that is not issued");
    // What else it would have recorded is unknown.
    let why = if panics { "panicked: in the closure" } else { "returned an error" };
    assert_error!(comm.health(), Abort, why, "tests/doubles/groups.rs");
    comm.abort();
    Ok(())
}

/// A failure is reported once, with all details; afterwards nothing reaches NCCL.
fn is_poisoned<T>(comm: &mut Communicator<Cuda<T>>, parts: &[&str]) -> Result<()> {
    says(&comm.health().expect_err("poisoned"), parts);
    let mut x = comm.device().zeros::<f32>(8)?;
    clear();
    let mut outcomes = vec![comm.all_reduce_in_place(&mut x, Sum), comm.send(&x, 0)];
    outcomes.push(comm.group(|g| g.broadcast_in_place(&mut x, 0)));
    outcomes.push(comm.pre_mul_sum(1.0_f32).map(drop));
    outcomes.push(comm.window::<f32>(8).map(drop));
    for outcome in outcomes {
        let error = outcome.expect_err("poisoned");
        assert!(matches!(error, Error::NcclFailed(_)), "{error}");
        says(&error, parts);
    }
    let called = nccl().called();
    let memory = |function: &Function| *function == Function::ncclMemAlloc;
    assert!(called.iter().all(memory), "{called:?}");
    Ok(())
}

#[test]
fn a_call_that_nccl_refuses_in_a_group() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
        let mut z = comm.device().zeros::<f32>(4)?;
        let wire = Wire::of(&comm)?;
        nccl().set_last_error("NET/IB : no");
        nccl().fail(ncclSend, ncclResult_t::ncclInvalidUsage);
        let line = line!() + 2;
        let outcome = comm.group(|g| {
            g.send(&x, 0)?;
            g.recv(&mut y, 0)?;
            g.broadcast_in_place(&mut z, 0)
        });
        let parts = [
            "ncclSend of NCCL 2.32.3 gave ncclInvalidUsage for send of 8 f32 to 0, at tests/doubles/",
            &format!("groups.rs:{line}: invalid usage; NET/IB : no; `NCCL_DEBUG=WARN`"),
        ];
        let error = assert_error!(outcome, NcclFailed, parts[0], parts[1]);
        assert!(error.is_fatal());
        let called: Vec<_> = wire.calls().iter().map(|call| call.function).collect();
        assert_eq!(called[..3], [ncclGroupStart, ncclSend, Function::ncclGetErrorString]);
        assert_eq!(called.iter().filter(|function| **function == ncclGroupEnd).count(), 1);
        assert!(!called.contains(&ncclRecv) && !called.contains(&ncclBroadcast), "{called:?}");
        is_poisoned(&mut comm, &parts)?;
        drop(comm);
        assert_eq!((count(ncclCommAbort), count(ncclCommDestroy)), (1, 0));
        Ok(())
    });
}

#[test]
fn a_call_that_nccl_refuses_alone() {
    on(NEWEST, || {
        for (function, failure) in [
            (ncclAllReduce, ncclResult_t::ncclUnhandledCudaError),
            (ncclBroadcast, ncclResult_t(77)),
            (ncclGroupStart, ncclResult_t::ncclInternalError),
            (ncclGroupEnd, ncclResult_t::ncclRemoteError),
        ] {
            let mut comm = alone()?;
            let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
            clear();
            nccl().fail(function, failure);
            let outcome = match function {
                ncclAllReduce => comm.all_reduce_in_place(&mut y, Sum),
                ncclBroadcast => comm.broadcast_in_place(&mut y, 0),
                _ => comm.group(|g| {
                    g.send(&x, 0)?;
                    g.recv(&mut y, 0)
                }),
            };
            let name = failure.name().map_or_else(|| "result 77".to_owned(), str::to_owned);
            let gave = format!("{function} of NCCL 2.32.3 gave {name} for ");
            assert_error!(outcome, NcclFailed, gave, "of 8 f32", "groups.rs:");
            let called = nccl().called();
            // A group that did not start does not end, and contains no calls.
            assert_eq!(called.contains(&ncclSend), function == ncclGroupEnd);
            assert_eq!(called.contains(&ncclGroupEnd), function == ncclGroupEnd);
            is_poisoned(&mut comm, &[&gave])?;
        }
        Ok(())
    });
}

fn clique(ordinals: &[u32]) -> Result<Clique<Cuda<AnyDevice>>> {
    Clique::init(Cuda::<AnyDevice>::open_each(ordinals)?)
}

#[test]
fn a_clique_is_one_communicator() {
    on(NEWEST, || {
        let clique = clique(&[3, 0, 2])?;
        let mut joins = calls(ncclCommInitRankConfig);
        joins.sort_by_key(|call| call.int("rank"));
        assert_eq!(joins.iter().map(|call| call.int("rank")).collect::<Vec<_>>(), [0, 1, 2]);
        for join in &joins {
            assert_eq!(join.int("nranks"), 3);
            assert_eq!(join.bytes("commId"), joins[0].bytes("commId"));
        }
        clique.finish()?;
        assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (3, 0));
        Ok(())
    });
}

#[test]
fn a_clique_calls_in_one_group() {
    on(NEWEST, || {
        let mut clique = clique(&[3, 0, 2])?;
        let (x, mut y) = (clique.alloc::<f32>(9)?, clique.alloc::<f32>(9)?);
        clear();
        clique.all_reduce(&x, &mut y, Max)?;
        let group = [ncclGroupStart, ncclAllReduce, ncclAllReduce, ncclAllReduce, ncclGroupEnd];
        assert_eq!(nccl().called(), group);
        let log = nccl().log();
        let of = |name: &str| log[1..4].iter().map(|call| call.pointer(name)).collect::<Vec<_>>();
        for name in ["comm", "stream", "sendbuff", "recvbuff"] {
            let mut all = of(name);
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 3, "{name}: a rank's own");
        }
        let comms = of("comm");

        clear();
        clique.group((&x, &mut y), |lane, (x, y)| {
            let (left, right) = (lane.ring(-1), lane.ring(1));
            lane.send(x, right)?;
            lane.recv(y, left)
        })?;
        let log = nccl().log();
        let called: Vec<_> = log.iter().map(|call| call.function).collect();
        assert_eq!(called[0], ncclGroupStart);
        assert_eq!(called[1..7], [ncclSend, ncclRecv, ncclSend, ncclRecv, ncclSend, ncclRecv]);
        assert_eq!(called[7..], [ncclGroupEnd]);
        for (rank, pair) in log[1..7].chunks(2).enumerate() {
            let (left, right) = ((rank + 2) % 3, (rank + 1) % 3);
            assert_eq!(pair[0].int("peer"), right as i128);
            assert_eq!(pair[1].int("peer"), left as i128);
            assert!(pair.iter().all(|call| call.pointer("comm") == comms[rank]));
        }

        clear();
        let outcome = clique.group((&x, &mut y), |lane, (x, _)| {
            lane.send(x, lane.ring(1))?;
            match lane.index() {
                2 => Err(Error::SizeVariable(Box::new(SizeVariable { found: "its own".into() }))),
                _ => Ok(()),
            }
        });
        assert_error!(outcome, SizeVariable, "its own");
        assert_silent("a group of lanes that fails");
        drop(clique);
        Ok(())
    });
}

#[test]
fn a_call_that_nccl_refuses_in_a_clique() {
    on(NEWEST, || {
        for function in [ncclAllReduce, ncclGroupEnd] {
            let clique = clique(&[0, 1])?;
            let mut x = clique.alloc::<f32>(9)?;
            clear();
            nccl().fail(function, ncclResult_t::ncclInternalError);
            let outcome = clique.all_reduce_in_place(&mut x, Sum);
            let name = function.to_string();
            assert_error!(outcome, NcclFailed, name, "all_reduce of 9 f32");
            assert_eq!(count(ncclGroupEnd), 1);
            // On every rank.
            assert!(clique.wait().is_err());
            clear();
            assert!(clique.all_reduce_in_place(&mut x, Sum).is_err());
            assert_eq!(nccl().called(), []);
            assert!(clique.finish().is_err());
            assert_eq!((count(ncclCommAbort), count(ncclCommDestroy)), (2, 0));
        }
        Ok(())
    });
}

tag!(Rows, Cols);

/// Two children of one communicator, of one rank each.
fn two() -> Result<(
    Communicator<Cuda<AnyDevice>>,
    Communicator<Rows<Cuda<AnyDevice>>>,
    Communicator<Cols<Cuda<AnyDevice>>>,
)> {
    let mut comm = alone()?;
    let (rows, cols) = (comm.split::<Rows>(0, 0)?, comm.split::<Cols>(0, 0)?);
    Ok((comm, rows, cols))
}

#[test]
fn several_communicators_are_one_launch() {
    on(NEWEST, || {
        let (comm, mut rows, mut cols) = two()?;
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
        let mut z = comm.device().zeros::<f32>(8)?;
        let other = comm.device().stream()?;
        let wires = [Wire::of(&rows)?, Wire::of(&cols)?];
        let streams = [handle(rows.stream())?, handle(&other)?];
        clear();
        group((&mut rows, (&mut cols, &other)), |(rows, cols)| {
            rows.all_reduce_in_place(&mut y, Sum)?;
            cols.broadcast_in_place(&mut z, 0)?;
            rows.send(&x, 0)?;
            Ok::<_, Error>(())
        })
        .expect_err("half of a transfer with itself");
        assert_silent("a group that is refused");
        group((&mut rows, (&mut cols, &other)), |(rows, cols)| {
            cols.broadcast_in_place(&mut z, 0)?;
            rows.all_reduce_in_place(&mut y, Sum)
        })?;
        let calls = nccl().log();
        let called: Vec<_> = calls.iter().map(|call| call.function).collect();
        // In the same order on all ranks, whichever is named first.
        assert_eq!(called, [ncclGroupStart, ncclAllReduce, ncclBroadcast, ncclGroupEnd]);
        for (call, (wire, stream)) in calls[1..3].iter().zip(wires.iter().zip(streams)) {
            assert_eq!(call.pointer("comm") as u64, wire.comm);
            assert_eq!(call.pointer("stream") as u64, stream);
        }
        // A communicator without operations is not part of the group.
        clear();
        group((&mut rows, &mut cols), |(rows, _)| rows.all_reduce_in_place(&mut y, Sum))?;
        assert_eq!(nccl().called(), [ncclAllReduce]);
        rows.finish()?;
        cols.finish()?;
        comm.finish()
    });
}

/// NCCL drops a group on every communicator in it, and so does an earlier failure once a part is
/// recorded.
#[test]
fn a_failure_takes_every_communicator_of_the_group() {
    on(NEWEST, || {
        for (function, ends) in [(ncclBroadcast, 1), (ncclGroupStart, 0), (ncclGroupEnd, 1)] {
            let (comm, mut rows, mut cols) = two()?;
            let (mut y, mut z) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
            clear();
            nccl().fail(function, ncclResult_t::ncclInternalError);
            let outcome = group((&mut rows, &mut cols), |(rows, cols)| {
                rows.all_reduce_in_place(&mut y, Sum)?;
                cols.broadcast_in_place(&mut z, 0)
            });
            let name = function.to_string();
            assert_error!(outcome, NcclFailed, name, "groups.rs:");
            assert_eq!(count(ncclGroupEnd), ends);
            assert_error!(rows.health(), NcclFailed, name);
            assert_error!(cols.health(), NcclFailed, name);
            comm.health()?;
            rows.abort();
            cols.abort();
            comm.finish()?;
        }
        Ok(())
    });
}

/// An estimated group does not end like an issued one.
#[test]
fn a_group_that_is_estimated() {
    on(NEWEST, || {
        let mut single = alone()?;
        let mut x = single.device().zeros::<f32>(8)?;
        clear();
        assert!(single.estimate(|g| g.all_reduce_in_place(&mut x, Sum))?.is_zero());
        assert_silent("an estimate on one rank");
        single.finish()?;
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 20_000)?;
            let mut x = comm.device().from_slice(&[1.0_f32; 8])?;
            let mut y = comm.device().zeros::<f32>(16)?;
            let wire = Wire::of(&comm)?;
            let time = comm.estimate(|g| {
                g.all_gather_in_place(&mut y)?;
                g.all_reduce_in_place(&mut x, Sum)
            })?;
            // The double's time for each call.
            assert_eq!(time, Duration::from_micros(25));
            let called: Vec<_> = wire.calls().iter().map(|call| call.function).collect();
            let between = [ncclGroupStart, Function::ncclAllGather, ncclAllReduce];
            assert_eq!(called[..3], between);
            assert_eq!(called[3..], [Function::ncclGroupSimulateEnd]);
            comm.finish()
        })
        .map(drop)
    });
    on(release("2.22.3"), || simulates(true));
    on(release("2.21.5"), || simulates(false));
}

/// Nothing of it is issued, and all ranks' parts are one group.
#[test]
fn a_group_of_a_clique_that_is_estimated() {
    on(NEWEST, || {
        let mut clique = clique(&[3, 0])?;
        let mut x = clique.alloc::<f32>(8)?;
        clear();
        let time = clique.estimate(&mut x, |lane, x| lane.all_reduce_in_place(x, Sum))?;
        assert_eq!(time, Duration::from_micros(25));
        let group = [ncclGroupStart, ncclAllReduce, ncclAllReduce, Function::ncclGroupSimulateEnd];
        assert_eq!(nccl().called(), group);
        clique.finish()
    });
}

fn simulates(does: bool) -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 20_000)?;
        let mut x = comm.device().zeros::<f32>(8)?;
        let outcome = comm.estimate(|g| g.all_reduce_in_place(&mut x, Sum));
        if does {
            outcome?;
        } else {
            assert_error!(outcome, Unsupported, "ncclGroupSimulateEnd", "2.22.3");
        }
        comm.finish()
    })
    .map(drop)
}

/// An operation made of several calls is one group, on any stream.
#[test]
fn an_uneven_collective_is_one_group() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let (splits, blocks) = (comm.splits(&[8])?, comm.blocks(8)?);
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
        let mut z = comm.device().zeros::<f32>(8)?;
        let other = comm.device().stream()?;
        let streams = [handle(comm.stream())?, handle(&other)?];
        let mut uneven = |round: usize| -> Result<()> {
            match round {
                0 => comm.all_to_all_v(&x, &mut y, &splits),
                1 => comm.on(&other).all_gather_v(&x, &mut y, &blocks),
                2 => comm.on(&other).reduce_scatter_v_in_place(&mut y, Sum, &blocks),
                3 => comm.group_on(&other, |g| {
                    g.all_to_all_v(&x, &mut y, &splits.transposed())?;
                    g.reduce_scatter_v(&x, &mut z, Max, &blocks)
                }),
                4 => comm.gather_v(&x, Root::Here(&mut y), &blocks),
                5 => comm.scatter_v(Root::Here(&x), &mut y, &blocks),
                // No other rank's block is here, so nothing moves.
                6 => comm.gather_v_in_place(&mut y, &blocks, 0),
                7 => comm.scatter_v_in_place(&mut y, &blocks, 0),
                _ => comm.all_gather_v_in_place(&mut y, &blocks),
            }
        };
        let pair = [ncclGroupStart, ncclSend, ncclRecv, ncclGroupEnd];
        let several = [ncclGroupStart, ncclSend, ncclRecv, Function::ncclReduce, ncclGroupEnd];
        // The root's own block is received before all blocks are sent.
        let scatter = [ncclGroupStart, ncclRecv, ncclSend, ncclGroupEnd];
        let reduce = [Function::ncclReduce];
        let expected: [&[Function]; 9] =
            [&pair, &pair, &reduce, &several, &pair, &scatter, &[], &[], &[]];
        for (round, expected) in expected.into_iter().enumerate() {
            clear();
            uneven(round)?;
            assert_eq!(nccl().called(), expected, "{round}");
            let on = streams[usize::from((1..4).contains(&round))];
            let calls = nccl().log();
            let calls = calls.iter().filter(|call| pair[1..3].contains(&call.function));
            assert!(calls.into_iter().all(|call| call.pointer("stream") as u64 == on), "{round}");
        }
        comm.finish()
    });
}

/// A group uses one stream, and orders its operands there.
#[test]
fn a_group_on_another_stream() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
        let other = comm.device().stream()?;
        comm.all_reduce_in_place(&mut y, Sum)?;
        let (from, stream) = (address(&other, &x)?, handle(&other)?);
        clear();
        comm.group_on(&other, |g| {
            g.send(&x, 0)?;
            g.recv(&mut y, 0)
        })?;
        let calls = nccl().log();
        assert!(calls[1..3].iter().all(|call| call.pointer("stream") as u64 == stream));
        assert_eq!(calls[1].pointer("sendbuff") as u64, from);
        let driver = cuda().log();
        let waits: Vec<_> = driver.iter().filter(|c| c.function == "cuStreamWaitEvent").collect();
        assert_eq!(waits.len(), 1, "for the use of one of the two");
        assert_eq!(waits[0].argument("hStream"), stream);
        comm.finish()
    });
}
