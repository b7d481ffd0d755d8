//! The doubles' promises between processes: each rank is a process that calls NCCL itself.

use std::ffi::c_int;
use std::ptr;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use nccl_sys::*;
use typed_nccl::{Communicator, Device, Result, launch};

use crate::machine::Test;
use crate::ranks::Ranks;
use crate::raw::{I64, OK, Raw, SUM, address, after, call, handle, hangs, settle};

pub(crate) const TESTS: &[Test] = &[
    Test { name: "every_collective", program: collectives, test: |run| run.ranks(3).succeed() },
    Test { name: "transfers_in_order", program: transfers, test: |run| run.ranks(2).succeed() },
    Test { name: "puts_and_signals", program: puts, test: |run| run.ranks(2).succeed() },
    Test {
        name: "windows_in_parts_of_one_allocation",
        program: || launch!(parts),
        test: |run| run.ranks(2).succeed(),
    },
    Test { name: "splits", program: splits, test: |run| run.ranks(4).succeed() },
    Test { name: "calls_that_differ", program: differs, test: |run| run.ranks(2).succeed() },
    Test { name: "threads_that_connect", program: connects, test: |run| run.ranks(2).succeed() },
    Test { name: "waits_for_signals", program: waits, test: |run| run.ranks(2).succeed() },
    Test {
        name: "a_killed_process",
        program: outlives,
        test: |run| {
            let mut ranks = run.ranks(3);
            ranks.hears(1, "ready");
            ranks.kill(1);
            let ended = ranks.ended();
            let well: Vec<bool> = ended.iter().map(|ended| ended.status.success()).collect();
            assert_eq!(well, [true, false, true], "{ended:?}");
        },
    },
    Test {
        name: "two_ranks_on_one_device",
        program: || {
            assert_eq!(Raw::join(0)?.0, ncclResult_t::ncclInvalidUsage);
            Ok(())
        },
        test: |run| {
            let here = |_: usize| {
                let mut command = run.on_gpus();
                command.env("CUDA_VISIBLE_DEVICES", "2");
                command
            };
            Ranks::start(2, here).succeed();
        },
    },
    Test {
        name: "two_hosts",
        program: apart,
        test: |run| {
            let there = |rank: usize| {
                let mut command = run.on_gpus();
                command.env("NCCL_HOSTID", format!("host-{rank}"));
                command
            };
            Ranks::start(2, there).succeed();
        },
    },
];

#[path = "../windows/parts_body.rs"]
mod parts_body;

/// By this library.
fn parts<D: Device>(comm: Communicator<D>) -> Result<()> {
    parts_body::windows(comm)
}

/// All eight, with numbers that identify their senders.
fn collectives() -> Result<()> {
    let (raw, device) = Raw::world()?;
    let (rank, size) = (raw.rank as i64, raw.size as i64);
    let (stream, len) = (device.stream()?, 5_usize);
    let on = handle(&stream)?;
    let numbers = |rank: i64| (0..len as i64 * size).map(move |i| 100 * rank + i);
    let from = device.from_slice(&numbers(rank).collect::<Vec<_>>())?;
    let mut to = device.zeros::<i64>(len * raw.size)?;
    let (send, recv) = (address(&stream, &from)?, address(&stream, &to)?);
    let comm = raw.comm;
    let all = || (0..size).flat_map(|rank| numbers(rank).take(len)).collect::<Vec<_>>();
    let sums = |at: i64| 100 * (size * (size - 1) / 2) + size * at;
    let mut found = |call: &str, result: ncclResult_t, wanted: &[i64]| -> Result<()> {
        assert_eq!(result, OK, "{call}");
        stream.sync()?;
        assert_eq!(to.to_vec()?[..wanted.len()], *wanted, "{call} on rank {rank}");
        to.copy_from(&vec![-1; len * size as usize])
    };
    let untouched = vec![-1; len * raw.size];
    let is_root = raw.rank == 1;
    let at_root = |wanted: Vec<i64>| if is_root { wanted } else { untouched.clone() };
    let own = |at: i64| at + rank * len as i64;

    let reduced: Vec<_> = (0..len as i64).map(sums).collect();
    let result = call!(raw, ncclAllReduce(send, recv, len, I64, SUM, comm, on));
    found("all_reduce", result, &reduced)?;
    let result = call!(raw, ncclReduce(send, recv, len, I64, SUM, 1, comm, on));
    found("reduce", result, &at_root(reduced))?;
    let result = call!(raw, ncclBroadcast(send, recv, len, I64, 1, comm, on));
    found("broadcast", result, &numbers(1).take(len).collect::<Vec<_>>())?;
    let result = call!(raw, ncclAllGather(send, recv, len, I64, comm, on));
    found("all_gather", result, &all())?;
    let result = call!(raw, ncclReduceScatter(send, recv, len, I64, SUM, comm, on));
    let parts: Vec<_> = (0..len as i64).map(|at| sums(own(at))).collect();
    found("reduce_scatter", result, &parts)?;
    let result = call!(raw, ncclAlltoAll(send, recv, len, I64, comm, on));
    let dealt = (0..size).flat_map(|from| (0..len as i64).map(move |at| 100 * from + own(at)));
    found("all_to_all", result, &dealt.collect::<Vec<_>>())?;
    let result = call!(raw, ncclGather(send, recv, len, I64, 1, comm, on));
    found("gather", result, &at_root(all()))?;
    let result = call!(raw, ncclScatter(send, recv, len, I64, 1, comm, on));
    let scattered: Vec<_> = (0..len as i64).map(|at| 100 + own(at)).collect();
    found("scatter", result, &scattered)?;
    assert_eq!(call!(raw, ncclCommDestroy(comm)), OK);
    Ok(())
}

/// Short and long ones, in both directions at once and one after the other.
fn transfers() -> Result<()> {
    let (raw, device) = Raw::world()?;
    let (stream, peer, long) = (device.stream()?, 1 - raw.rank as c_int, 1 << 20);
    let on = handle(&stream)?;
    for len in [1, long] {
        let own = device.from_slice(&vec![raw.rank as i64; len])?;
        let theirs = device.from_slice(&vec![-1_i64; len])?;
        let (send, recv) = (address(&stream, &own)?, address(&stream, &theirs)?);
        assert_eq!(call!(raw, ncclGroupStart()), OK);
        assert_eq!(call!(raw, ncclSend(send, len, I64, peer, raw.comm, on)), OK);
        assert_eq!(call!(raw, ncclRecv(recv, len, I64, peer, raw.comm, on)), OK);
        assert_eq!(call!(raw, ncclGroupEnd()), OK);
        stream.sync()?;
        assert_eq!(theirs.to_vec()?, vec![i64::from(peer); len]);
    }
    let numbers = device.from_slice(&(0..100_i64).collect::<Vec<_>>())?;
    let heard = device.from_slice(&[-1_i64; 100])?;
    let (send, recv) = (address(&stream, &numbers)?, address(&stream, &heard)?);
    for at in 0..100 {
        let (send, recv) = (send.wrapping_byte_add(8 * at), recv.wrapping_byte_add(8 * at));
        let result = match raw.rank {
            0 => call!(raw, ncclSend(send, 1, I64, peer, raw.comm, on)),
            _ => call!(raw, ncclRecv(recv, 1, I64, peer, raw.comm, on)),
        };
        assert_eq!(result, OK);
    }
    stream.sync()?;
    assert!(raw.rank == 0 || heard.to_vec()? == numbers.to_vec()?);
    // A long send waits for its counterpart; both send first.
    let own = device.from_slice(&vec![raw.rank as i64; long])?;
    let send = address(&stream, &own)?;
    assert_eq!(call!(raw, ncclSend(send, long, I64, peer, raw.comm, on)), OK);
    hangs(on);
    assert_eq!(call!(raw, ncclCommAbort(raw.comm)), OK);
    settle(on);
    Ok(())
}

/// A ball that the ranks put into each other's windows.
fn puts() -> Result<()> {
    let (raw, device) = Raw::world()?;
    let (stream, peer) = (device.stream()?, 1 - raw.rank as c_int);
    let on = handle(&stream)?;
    let mut memory = device.nccl_zeros::<i64>(64)?;
    let start = address(&stream, &memory)?;
    let (comm, mut window) = (raw.comm, ptr::null_mut());
    let flags = NCCL_WIN_COLL_SYMMETRIC;
    let registered = call!(raw, ncclCommWindowRegister(comm, start, 512, &raw mut window, flags));
    assert!(registered == OK && !window.is_null());
    let mut description = ncclWaitSignalDesc_t { opCnt: 1, peer, sigIdx: 0, ctx: 0 };
    for turn in 0..20_i64 {
        if turn % 2 == raw.rank as i64 {
            memory.copy_from(&[turn; 64])?;
            let put = call!(raw, ncclPutSignal(start, 8, I64, peer, window, 64, 0, 0, 0, comm, on));
            assert_eq!(put, OK);
            stream.sync()?;
        } else {
            // What another library enqueues after a mark is waited for too.
            let _before = stream.mark()?;
            assert_eq!(call!(raw, ncclWaitSignal(1, &raw mut description, comm, on)), OK);
            stream.sync()?;
            let found = memory.to_vec()?;
            assert_eq!(found[8..16], [turn; 8], "turn {turn}");
            assert!(turn == 0 || found[16..].iter().all(|one| *one == turn - 1));
        }
    }
    let mut elsewhere = ptr::null_mut();
    let found = call!(raw, ncclGetPeerDevicePointer(window, 0, peer, &raw mut elsewhere));
    assert!(found == OK && !elsewhere.is_null() && elsewhere != start);
    // Calls that NCCL refuses.
    let bad = ncclResult_t::ncclInvalidArgument;
    let put = |offset, count, signal| {
        call!(raw, ncclPutSignal(start, count, I64, peer, window, offset, signal, 0, 0, comm, on))
    };
    assert_eq!((put(512, 1, 0), put(0, 1, 7)), (bad, bad));
    assert_eq!(put(504, 2, 0), ncclResult_t::ncclUnhandledCudaError);
    let plain = device.zeros::<i64>(64)?;
    let plain = address(&stream, &plain)?;
    let put = call!(raw, ncclPutSignal(plain, 1, I64, peer, window, 0, 0, 0, 0, comm, on));
    assert_eq!(put, bad);
    assert_eq!(raw.sum(&device, 1)?, 2);
    assert_eq!(call!(raw, ncclCommDestroy(comm)), OK);
    Ok(())
}

/// Even and odd ranks, the highest first; the parent continues.
fn splits() -> Result<()> {
    let (raw, device) = Raw::world()?;
    let mut child = NCCL_COMM_NULL;
    let (color, key) = (raw.rank as c_int % 2, -(raw.rank as c_int));
    let split = call!(raw, ncclCommSplit(raw.comm, color, key, &raw mut child, ptr::null_mut()));
    assert_eq!(split, OK);
    let half = raw.child(child);
    assert_eq!((half.rank, half.size), (1 - raw.rank / 2, 2));
    assert_eq!(half.sum(&device, raw.rank as i64)?, 2 + 2 * i64::from(color));
    let color = if raw.rank == 3 { NCCL_SPLIT_NOCOLOR } else { 7 };
    let split = call!(raw, ncclCommSplit(raw.comm, color, 0, &raw mut child, ptr::null_mut()));
    assert_eq!(split, OK);
    assert_eq!(child.is_null(), raw.rank == 3);
    assert_eq!(raw.sum(&device, 1)?, 4);
    Ok(())
}

/// Different counts hang, different roots do not.
fn differs() -> Result<()> {
    let (raw, device) = Raw::world()?;
    let stream = device.stream()?;
    let on = handle(&stream)?;
    assert_eq!(raw.sum(&device, 1)?, 2);
    let x = device.from_slice(&[raw.rank as i64; 4])?;
    let at = address(&stream, &x)?;
    let root = raw.rank as c_int;
    assert_eq!(call!(raw, ncclBroadcast(at, at, 4, I64, root, raw.comm, on)), OK);
    settle(on);
    assert_eq!(x.to_vec()?, [raw.rank as i64; 4]);
    assert_eq!(call!(raw, ncclAllReduce(at, at, 1 + raw.rank, I64, SUM, raw.comm, on)), OK);
    hangs(on);
    assert_eq!(raw.async_error(), OK);
    assert_eq!(call!(raw, ncclCommAbort(raw.comm)), OK);
    settle(on);
    Ok(())
}

/// Only rank 0 makes the first call of the communicator.
fn connects() -> Result<()> {
    let (raw, device) = Raw::world()?;
    if raw.rank == 1 {
        // It is present until rank 0 has seen that it does not call.
        after(false);
        return Ok(());
    }
    let stream = device.stream()?;
    let (on, x) = (handle(&stream)?, device.zeros::<i64>(1)?);
    let at = address(&stream, &x)?.expose_provenance();
    let (told, hears) = channel();
    let on = on.expose_provenance();
    thread::scope(|scope| {
        scope.spawn(move || {
            let own = raw;
            let (at, on) =
                (ptr::with_exposed_provenance_mut(at), ptr::with_exposed_provenance_mut(on));
            let result = call!(own, ncclAllReduce(at, at, 1, I64, SUM, own.comm, on));
            told.send(result).expect("the test waits");
        });
        let waited = hears.recv_timeout(Duration::from_millis(300));
        assert!(waited.is_err(), "nobody holds it up");
        after(true);
        assert_eq!(call!(raw, ncclCommRevoke(raw.comm, NCCL_REVOKE_DEFAULT)), OK);
        assert_eq!(hears.recv(), Ok(ncclResult_t::ncclInternalError));
    });
    assert_eq!(call!(raw, ncclCommAbort(raw.comm)), OK);
    Ok(())
}

/// An abort does not end a wait; a signal does, even afterwards.
fn waits() -> Result<()> {
    let (raw, device) = Raw::world()?;
    let stream = device.stream()?;
    let on = handle(&stream)?;
    assert_eq!(raw.sum(&device, 1)?, 2);
    if raw.rank == 0 {
        after(false);
        assert_eq!(call!(raw, ncclSignal(1, 0, 0, 0, raw.comm, on)), OK);
        settle(on);
        return Ok(());
    }
    let mut description = ncclWaitSignalDesc_t { opCnt: 1, peer: 0, sigIdx: 0, ctx: 0 };
    assert_eq!(call!(raw, ncclWaitSignal(1, &raw mut description, raw.comm, on)), OK);
    let (told, hears) = channel();
    thread::spawn(move || {
        let own = raw;
        let _ = told.send(call!(own, ncclCommAbort(own.comm)));
    });
    hangs(on);
    assert!(hears.try_recv().is_err(), "it frees memory, which takes an idle device");
    after(true);
    assert_eq!(hears.recv(), Ok(OK));
    settle(on);
    Ok(())
}

/// Rank 1 is killed; the others wait, without an error, until they abort and continue without it.
fn outlives() -> Result<()> {
    let (raw, device) = Raw::world()?;
    let stream = device.stream()?;
    assert_eq!(raw.sum(&device, 1)?, 3);
    if raw.rank == 1 {
        println!("ready");
        thread::sleep(Duration::from_secs(600));
    }
    let (on, x) = (handle(&stream)?, device.zeros::<i64>(1)?);
    let at = address(&stream, &x)?;
    assert_eq!(call!(raw, ncclAllReduce(at, at, 1, I64, SUM, raw.comm, on)), OK);
    hangs(on);
    assert_eq!(raw.async_error(), OK);
    let (mut gone, mut child) = ([1], NCCL_COMM_NULL);
    let (gone, config) = (gone.as_mut_ptr(), ptr::null_mut());
    let flags = NCCL_SHRINK_ABORT;
    let shrunk = call!(raw, ncclCommShrink(raw.comm, gone, 1, &raw mut child, config, flags));
    assert_eq!(shrunk, OK);
    settle(on);
    let left = raw.child(child);
    assert_eq!((left.rank, left.size), (raw.rank / 2, 2));
    assert_eq!(left.sum(&device, raw.rank as i64)?, 2);
    assert_eq!(call!(raw, ncclCommAbort(raw.comm)), OK);
    Ok(())
}

/// Without a network over which NCCL can put.
fn apart() -> Result<()> {
    let (raw, device) = Raw::world()?;
    assert_eq!(raw.sum(&device, 1)?, 2);
    let stream = device.stream()?;
    let memory = device.nccl_zeros::<i64>(64)?;
    let (start, on) = (address(&stream, &memory)?, handle(&stream)?);
    let (mut window, flags) = (ptr::null_mut(), NCCL_WIN_COLL_SYMMETRIC);
    let registered =
        call!(raw, ncclCommWindowRegister(raw.comm, start, 512, &raw mut window, flags));
    assert!(registered == OK && window.is_null());
    let signal = call!(raw, ncclSignal(1 - raw.rank as c_int, 0, 0, 0, raw.comm, on));
    assert_eq!(signal, ncclResult_t::ncclInvalidArgument);
    Ok(())
}
