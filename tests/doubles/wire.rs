//! Operations as NCCL calls: the function, addresses, counts, types, ranks, the stream.

use fake_nccl::Call;
use nccl_sys::Function::{self, ncclAllReduce};
use typed_nccl::{AnyDevice, Avg, Cuda, Max, Min, Prod, Rank, Result, Root, Sum};

use crate::common::{Wire, address, alone, assert_silent, clear, handle, line};
use crate::scenario::{NEWEST, cuda, nccl, on, release};

/// Bytes of a `f32`, and NCCL's number for it.
const F32: (u64, &str) = (4, "datatype=7");

#[test]
fn collectives_with_two_buffers() {
    on(NEWEST, || {
        Cuda::spmd(3, |place| {
            let comm = place.init()?;
            let (rank, root) = (comm.rank().index(), 1);
            let (small, large) = (comm.device().zeros::<f32>(20)?, comm.device().zeros::<f32>(60)?);
            let mut to = comm.device().zeros::<f32>(20)?;
            let mut all = comm.device().zeros::<f32>(60)?;
            let stream = comm.stream();
            let (s, l) = (address(stream, &small)?, address(stream, &large)?);
            let (t, a) = (address(stream, &to)?, address(stream, &all)?);
            let wire = Wire::of(&comm)?;
            let (of, end) = (F32.1, wire.end());

            comm.all_reduce(&small, &mut to, Sum)?;
            comm.all_reduce(&small.slice(3..8), &mut to.slice_mut(10..15), Max)?;
            let is_root = rank == root;
            let other = Rank::from_index(root);
            let from = if is_root { Root::Here(&small) } else { Root::There(other) };
            comm.broadcast(from, &mut to)?;
            let into = if is_root { Root::Here(&mut to) } else { Root::There(other) };
            comm.reduce_into(&small, into, Min)?;
            comm.all_gather(&small.slice(1..11), &mut all.slice_mut(5..35))?;
            comm.reduce_scatter(&large.slice(30..60), &mut to.slice_mut(0..10), Prod)?;
            comm.all_to_all(&large, &mut all)?;
            let into = if is_root { Root::Here(&mut all) } else { Root::There(other) };
            comm.gather_into(&small, into)?;
            let from = if is_root { Root::Here(&large) } else { Root::There(other) };
            comm.scatter(from, &mut to)?;

            // A rank with a single operand passes it twice.
            let here = |root_has: u64, instead: u64| if is_root { root_has } else { instead };
            let two = |from: u64, to: u64| format!("sendbuff={from:#x} recvbuff={to:#x}");
            let expected = [
                format!("ncclAllReduce {} count=20 {of} op=0 {end}", two(s, t)),
                format!("ncclAllReduce {} count=5 {of} op=2 {end}", two(s + 12, t + 40)),
                format!("ncclBroadcast {} count=20 {of} root=1 {end}", two(here(s, t), t)),
                format!("ncclReduce {} count=20 {of} op=3 root=1 {end}", two(s, here(t, s))),
                format!("ncclAllGather {} sendcount=10 {of} {end}", two(s + 4, a + 20)),
                format!("ncclReduceScatter {} recvcount=10 {of} op=1 {end}", two(l + 120, t)),
                format!("ncclAlltoAll {} count=20 {of} {end}", two(l, a)),
                format!("ncclGather {} count=20 {of} root=1 {end}", two(s, here(a, s))),
                format!("ncclScatter {} count=20 {of} root=1 {end}", two(here(l, t), t)),
            ];
            assert_eq!(wire.lines(), expected);
            comm.finish()
        })
        .map(drop)
    });
}

#[test]
fn collectives_in_one_buffer() {
    on(NEWEST, || {
        Cuda::spmd(3, |place| {
            let comm = place.init()?;
            let (rank, root) = (comm.rank().index(), 2);
            let mut x = comm.device().zeros::<f32>(60)?;
            let start = address(comm.stream(), &x)?;
            let wire = Wire::of(&comm)?;
            let (of, end) = (F32.1, wire.end());

            comm.all_reduce_in_place(&mut x, Avg)?;
            comm.broadcast_in_place(&mut x.slice_mut(4..9), root)?;
            comm.reduce_in_place(&mut x, Sum, root)?;
            comm.all_gather_in_place(&mut x)?;
            comm.reduce_scatter_in_place(&mut x.slice_mut(30..60), Sum)?;
            let is_root = rank == root;
            let blocks = if is_root { 0..60 } else { 0..20 };
            comm.gather_in_place(&mut x.slice_mut(blocks.clone()), root)?;
            comm.scatter_in_place(&mut x.slice_mut(blocks), root)?;

            let two = |from: u64, to: u64| format!("sendbuff={from:#x} recvbuff={to:#x}");
            let block = |count: u64| rank as u64 * count * F32.0;
            let (all, half) = (start, start + 120);
            let own = if is_root { start + block(20) } else { start };
            let expected = [
                format!("ncclAllReduce {} count=60 {of} op=4 {end}", two(all, all)),
                format!("ncclBroadcast {} count=5 {of} root=2 {end}", two(start + 16, start + 16)),
                format!("ncclReduce {} count=60 {of} op=0 root=2 {end}", two(all, all)),
                format!("ncclAllGather {} sendcount=20 {of} {end}", two(all + block(20), all)),
                format!(
                    "ncclReduceScatter {} recvcount=10 {of} op=0 {end}",
                    two(half, half + block(10))
                ),
                format!("ncclGather {} count=20 {of} root=2 {end}", two(own, start)),
                format!("ncclScatter {} count=20 {of} root=2 {end}", two(start, own)),
            ];
            assert_eq!(wire.lines(), expected);
            comm.finish()
        })
        .map(drop)
    });
}

#[test]
fn transfers() {
    on(NEWEST, || {
        Cuda::spmd(3, |place| {
            let mut comm = place.init()?;
            let (left, right) = (comm.ring(-1), comm.ring(1));
            let (x, mut y) = (comm.device().zeros::<f32>(20)?, comm.device().zeros::<f32>(20)?);
            let (from, to) = (address(comm.stream(), &x)?, address(comm.stream(), &y)?);
            let wire = Wire::of(&comm)?;
            let (of, end) = (F32.1, wire.end());
            comm.group(|g| {
                g.send(x.slice(1..20), right)?;
                g.recv(y.slice_mut(0..19), left)
            })?;
            // A single call needs no group.
            match comm.rank().index() {
                0 => comm.send(&x.slice(0..18), 1)?,
                1 => comm.recv(&mut y.slice_mut(2..20), 0)?,
                _ => {}
            }
            let (r, l) = (right.index(), left.index());
            let mut expected = vec![
                "ncclGroupStart".to_owned(),
                format!("ncclSend sendbuff={:#x} count=19 {of} peer={r} {end}", from + 4),
                format!("ncclRecv recvbuff={to:#x} count=19 {of} peer={l} {end}"),
                "ncclGroupEnd".to_owned(),
            ];
            expected.extend(match comm.rank().index() {
                0 => Some(format!("ncclSend sendbuff={from:#x} count=18 {of} peer=1 {end}")),
                1 => Some(format!("ncclRecv recvbuff={:#x} count=18 {of} peer=0 {end}", to + 8)),
                _ => None,
            });
            assert_eq!(wire.lines(), expected);
            comm.finish()
        })
        .map(drop)
    });
}

/// Without NCCL functions for them: blocks by rank.
#[test]
fn all_to_all_gather_and_scatter_of_an_old_release() {
    on(release("2.27.7"), || {
        Cuda::spmd(3, |place| {
            let comm = place.init()?;
            let (rank, root) = (comm.rank().index() as u64, 1);
            let (x, mut y) = (comm.device().zeros::<f32>(60)?, comm.device().zeros::<f32>(60)?);
            let (from, to) = (address(comm.stream(), &x)?, address(comm.stream(), &y)?);
            let wire = Wire::of(&comm)?;
            let (of, end) = (F32.1, wire.end());
            let send = |at: u64, peer: u64| {
                format!("ncclSend sendbuff={at:#x} count=20 {of} peer={peer} {end}")
            };
            let recv = |at: u64, peer: u64| {
                format!("ncclRecv recvbuff={at:#x} count=20 {of} peer={peer} {end}")
            };
            let grouped = |calls: Vec<String>| {
                let (start, end) = ("ncclGroupStart".to_owned(), "ncclGroupEnd".to_owned());
                [start].into_iter().chain(calls).chain([end]).collect::<Vec<_>>()
            };
            let is_root = rank == root;
            let at = Rank::from_index(root as usize);

            comm.all_to_all(&x, &mut y)?;
            let both = |peer| [send(from + 80 * peer, peer), recv(to + 80 * peer, peer)];
            assert_eq!(wire.lines(), grouped((0..3).flat_map(both).collect()));

            let into = if is_root { Root::Here(&mut y) } else { Root::There(at) };
            comm.gather_into(&x.slice(0..20), into)?;
            let expected = match is_root {
                false => vec![send(from, root)],
                true => vec![recv(to, 0), send(from, 1), recv(to + 80, 1), recv(to + 160, 2)],
            };
            assert_eq!(wire.lines(), grouped(expected));

            let source = if is_root { Root::Here(&x) } else { Root::There(at) };
            comm.scatter(source, &mut y.slice_mut(0..20))?;
            let expected = match is_root {
                false => vec![recv(to, root)],
                true => vec![send(from, 0), send(from + 80, 1), recv(to, 1), send(from + 160, 2)],
            };
            assert_eq!(wire.lines(), grouped(expected));

            // In place, the root's own block stays where it is.
            let blocks = if is_root { 0..60 } else { 0..20 };
            comm.gather_in_place(&mut y.slice_mut(blocks.clone()), 1)?;
            let expected = match is_root {
                false => vec![send(to, root)],
                true => vec![recv(to, 0), recv(to + 160, 2)],
            };
            assert_eq!(wire.lines(), grouped(expected));
            comm.scatter_in_place(&mut y.slice_mut(blocks), 1)?;
            let expected = match is_root {
                false => vec![recv(to, root)],
                true => vec![send(to, 0), send(to + 160, 2)],
            };
            assert_eq!(wire.lines(), grouped(expected));
            comm.finish()
        })
        .map(drop)
    });
}

/// The size of NCCL's memory.
const PIECE: usize = 2 << 20;

/// The second address of NCCL's memory.
fn second(address: u64) -> u64 {
    let log = cuda().log();
    let of = |function: &str, argument: &str, value: u64| {
        let mut calls = log.iter().filter(|call| call.function == function);
        calls.rfind(|call| call.argument(argument) == value).expect("called")
    };
    let retained = of("cuMemRetainAllocationHandle", "addr", address);
    of("cuMemMap", "handle", retained.gives.expect("it has one")).argument("ptr")
}

/// NCCL knows the first address of registered memory. Its send and receive would then wait for a
/// peer whose memory it also knows.
#[test]
fn transfers_name_nccls_memory_by_its_second_address() {
    for version in ["2.27.7", "2.32.3"] {
        on(release(version), || {
            cuda().set_virtual(PIECE);
            Cuda::spmd(2, |place| {
                let mut comm = place.init()?;
                let (rank, peer) = (comm.rank().index(), comm.ring(1));
                let window = comm.window::<f32>(20)?;
                let mut buffer = comm.device().nccl_zeros::<f32>(20)?;
                let mut plain = comm.device().zeros::<f32>(20)?;
                let registered = comm.register_buffer(&buffer)?;
                let stream = comm.stream();
                let (w, b) = (window.user_ptr().addr() as u64, address(stream, &buffer)?);
                let p = address(stream, &plain)?;
                let (second_w, second_b) = (second(w), second(b));
                assert!(second_w != w && second_b != b);
                let wire = Wire::of(&comm)?;
                let (of, end) = (F32.1, wire.end());
                let two = |from: u64, to: u64| format!("sendbuff={from:#x} recvbuff={to:#x}");

                comm.all_reduce(&window, &mut buffer, Sum)?;
                comm.group(|g| {
                    g.send(window.slice(5..20), peer)?;
                    g.recv(buffer.slice_mut(0..15), peer)
                })?;
                match rank {
                    0 => comm.send(&buffer, peer)?,
                    _ => comm.recv(&mut plain, peer)?,
                }
                let expected = [
                    format!("ncclAllReduce {} count=20 {of} op=0 {end}", two(w, b)),
                    "ncclGroupStart".to_owned(),
                    format!(
                        "ncclSend sendbuff={:#x} count=15 {of} peer={} {end}",
                        second_w + 20,
                        1 - rank
                    ),
                    format!(
                        "ncclRecv recvbuff={second_b:#x} count=15 {of} peer={} {end}",
                        1 - rank
                    ),
                    "ncclGroupEnd".to_owned(),
                    match rank {
                        0 => format!("ncclSend sendbuff={second_b:#x} count=20 {of} peer=1 {end}"),
                        _ => format!("ncclRecv recvbuff={p:#x} count=20 {of} peer=0 {end}"),
                    },
                ];
                assert_eq!(wire.lines(), expected);
                comm.deregister_buffer(registered)?;
                comm.finish()
            })
            .map(drop)
        });
    }
}

/// The same holds for collectives made of transfers.
#[test]
fn all_to_all_gather_and_scatter_of_an_old_release_name_second_addresses() {
    on(release("2.27.7"), || {
        cuda().set_virtual(PIECE);
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let is_root = comm.rank().index() == 1;
            let root = Rank::from_index(1);
            let window = comm.window::<f32>(40)?;
            let mut buffer = comm.device().nccl_zeros::<f32>(40)?;
            let registered = comm.register_buffer(&buffer)?;
            let from = second(window.user_ptr().addr() as u64);
            let to = second(address(comm.stream(), &buffer)?);
            let wire = Wire::of(&comm)?;
            let transfer = |call: Call| {
                let (way, memory) = match call.function {
                    Function::ncclSend => ("to", "sendbuff"),
                    Function::ncclRecv => ("from", "recvbuff"),
                    _ => return None,
                };
                Some((way, call.int("peer"), call.pointer(memory) as u64))
            };
            let transfers = || wire.calls().into_iter().filter_map(transfer).collect::<Vec<_>>();

            comm.all_to_all(&window, &mut buffer)?;
            let all =
                [("to", 0, from), ("from", 0, to), ("to", 1, from + 80), ("from", 1, to + 80)];
            assert_eq!(transfers(), all);

            let into = if is_root { Root::Here(&mut buffer) } else { Root::There(root) };
            comm.gather_into(&window.slice(0..20), into)?;
            let expected = match is_root {
                false => vec![("to", 1, from)],
                true => vec![("from", 0, to), ("to", 1, from), ("from", 1, to + 80)],
            };
            assert_eq!(transfers(), expected);

            let source = if is_root { Root::Here(&window) } else { Root::There(root) };
            comm.scatter(source, &mut buffer.slice_mut(0..20))?;
            let expected = match is_root {
                false => vec![("from", 1, to)],
                true => vec![("to", 0, from), ("to", 1, from + 80), ("from", 1, to)],
            };
            assert_eq!(transfers(), expected);

            let blocks = if is_root { 0..40 } else { 0..20 };
            comm.gather_in_place(&mut buffer.slice_mut(blocks.clone()), 1)?;
            comm.scatter_in_place(&mut buffer.slice_mut(blocks), 1)?;
            let expected = match is_root {
                false => [("to", 1, to), ("from", 1, to)],
                true => [("from", 0, to), ("to", 0, to)],
            };
            assert_eq!(transfers(), expected);
            comm.deregister_buffer(registered)?;
            comm.finish()
        })
        .map(drop)
    });
}

/// Every operation, on the given stream, and on the communicator's own one without it.
#[test]
fn another_stream() {
    on(NEWEST, || {
        nccl().set_rma(true);
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let (other, peer) = (comm.device().stream()?, comm.ring(1));
            let window = comm.window::<f32>(8)?;
            let mut x = comm.device().zeros::<f32>(4)?;
            let mut y = comm.device().zeros::<f32>(8)?;
            let mut z = comm.device().zeros::<f32>(8)?;
            let is_root = comm.rank().index() == 0;
            let wire = Wire::of(&comm)?;
            for on in [&other, comm.stream()] {
                let there = comm.on(on);
                there.all_reduce_in_place(&mut y, Sum)?;
                there.broadcast_in_place(&mut y, 0)?;
                there.reduce_in_place(&mut y, Sum, 0)?;
                there.all_gather(&x, &mut y)?;
                there.reduce_scatter(&y, &mut x, Sum)?;
                there.all_to_all(&y, &mut z)?;
                let blocks = if is_root { 0..8 } else { 0..4 };
                there.gather_in_place(&mut y.slice_mut(blocks.clone()), 0)?;
                there.scatter_in_place(&mut y.slice_mut(blocks), 0)?;
                match is_root {
                    true => there.send(&x, peer)?,
                    false => there.recv(&mut x, peer)?,
                }
                there.put_signal(window.slice(0..2), peer, window.at(4))?;
                there.wait_signal(peer)?;
                there.signal(peer)?;
                there.wait_signal(peer)?;
                let calls = wire.calls();
                let functions: Vec<_> = calls.iter().map(|call| call.function).collect();
                let transfer = if is_root { Function::ncclSend } else { Function::ncclRecv };
                let expected = [
                    ncclAllReduce,
                    Function::ncclBroadcast,
                    Function::ncclReduce,
                    Function::ncclAllGather,
                    Function::ncclReduceScatter,
                    Function::ncclAlltoAll,
                    Function::ncclGather,
                    Function::ncclScatter,
                    transfer,
                    Function::ncclPutSignal,
                    Function::ncclWaitSignal,
                    Function::ncclSignal,
                    Function::ncclWaitSignal,
                ];
                assert_eq!(functions, expected);
                let raw = handle(on)?;
                for call in &calls {
                    assert_eq!(call.pointer("stream") as u64, raw, "{}", call.function);
                }
            }
            assert_ne!(handle(&other)?, wire.stream);
            comm.all_reduce_in_place(&mut y, Sum)?;
            assert_eq!(wire.calls()[0].pointer("stream") as u64, wire.stream);
            comm.group_on(&other, |g| {
                g.all_reduce_in_place(&mut y, Sum)?;
                g.all_gather(&x, &mut z)
            })?;
            let grouped = wire.calls();
            assert_eq!(grouped.len(), 4, "they are between a group's start and its end");
            for call in &grouped[1..3] {
                assert_eq!(call.pointer("stream") as u64, handle(&other)?);
            }
            comm.finish()
        })
        .map(drop)
    });
}

/// After the first time, a repeated call is one call to NCCL and none to the driver.
fn is_one_call(function: Function, mut call: impl FnMut() -> Result<()>) -> Result<()> {
    call()?;
    for _ in 0..3 {
        clear();
        call()?;
        assert_eq!(nccl().called(), [function]);
        assert_eq!(cuda().called(), [""; 0], "{function}");
    }
    Ok(())
}

#[test]
fn warm_calls_are_single_calls() {
    on(NEWEST, || {
        let comm = alone()?;
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
        is_one_call(ncclAllReduce, || comm.all_reduce_in_place(&mut y, Sum))?;
        is_one_call(ncclAllReduce, || comm.all_reduce(&x, &mut y, Max))?;
        is_one_call(Function::ncclBroadcast, || comm.broadcast_in_place(&mut y, 0))?;
        is_one_call(Function::ncclReduce, || comm.reduce_in_place(&mut y, Prod, 0))?;
        is_one_call(Function::ncclAllGather, || comm.all_gather(&x, &mut y))?;
        is_one_call(Function::ncclReduceScatter, || comm.reduce_scatter(&x, &mut y, Sum))?;
        is_one_call(Function::ncclAlltoAll, || comm.all_to_all(&x, &mut y))?;
        is_one_call(Function::ncclGather, || comm.gather_into(&x, Root::Here(&mut y)))?;
        is_one_call(Function::ncclScatter, || comm.scatter(Root::Here(&x), &mut y))?;
        comm.finish()
    });
}

#[test]
fn warm_transfers_are_single_calls() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let comm = place.init()?;
            let mut x = comm.device().zeros::<f32>(8)?;
            let mut turn = || match comm.rank().index() {
                0 => comm.send(&x, 1),
                _ => comm.recv(&mut x, 0),
            };
            turn()?;
            comm.barrier()?;
            clear();
            comm.barrier()?;
            turn()?;
            comm.barrier()?;
            let mut called: Vec<_> = nccl().called().iter().map(ToString::to_string).collect();
            called.sort();
            assert_eq!(
                (called, cuda().called().len()),
                (vec!["ncclRecv".into(), "ncclSend".into()], 0)
            );
            comm.barrier()?;
            comm.finish()
        })
        .map(drop)
    });
}

/// A refusal comes before everything.
#[test]
fn what_is_refused_calls_nothing() {
    on(NEWEST, || {
        let comm = alone()?;
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(7)?);
        clear();
        let refused = [
            comm.all_reduce(&x, &mut y, Sum),
            comm.all_reduce_in_place(&mut y.slice_mut(3..9), Sum),
            comm.broadcast_in_place(&mut y, 1),
            comm.send(&x, 0),
            comm.recv(&mut y, 7),
        ];
        for outcome in refused {
            let error = outcome.expect_err("refused");
            assert!(error.is_refusal(), "{error}");
        }
        assert_silent("what is refused");
        let other = Cuda::<AnyDevice>::any(1)?;
        let mut there = other.zeros::<f32>(8)?;
        clear();
        let outcome = comm.all_reduce_in_place(&mut there, Sum);
        assert_error!(outcome, OtherDevice, "all_reduce", "cuda:1", "cuda:0");
        assert_silent("what is refused");
        comm.health()?;
        let mut fine = comm.device().zeros::<f32>(8)?;
        comm.all_reduce_in_place(&mut fine, Sum)?;
        assert!(nccl().log().iter().any(|call| line(call).starts_with("ncclAllReduce")));
        comm.finish()
    });
}

/// An empty operation is a call too, on every rank.
#[test]
fn no_elements() {
    on(NEWEST, || {
        let comm = alone()?;
        let mut x = comm.device().zeros::<f64>(0)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [0.0; 0]);
        let log = nccl().log();
        let call = log.iter().rfind(|call| call.function == ncclAllReduce).expect("called");
        assert_eq!((call.int("count"), call.int("datatype")), (0, 8));
        comm.finish()
    });
}
