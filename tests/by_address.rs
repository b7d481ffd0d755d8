//! The untyped door, on the host: memory by address, in one `unsafe` call for each operation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::{Arc, Barrier};
use std::thread;

use typed_nccl::{
    AnyDevice, Communicator, DType, Device, DynReduceOp, Error, Host, Raw, RawOp, RawPart, Result,
    Seat, Sum, World,
};

use crate::ranks::spmd;
use crate::watched::watched;

type Dev = Host<AnyDevice>;

fn part<T>(values: &mut [T], dtype: DType) -> RawPart {
    assert_eq!(size_of::<T>(), dtype.size());
    RawPart::new(values.as_mut_ptr().cast(), values.len(), dtype)
}

fn floats(values: &mut [f32]) -> RawPart {
    part(values, DType::F32)
}

#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// Every operation between sides apart, with what each rank then has.
fn apart<W: World>(comm: &Communicator<W>) -> Result<()> {
    let (rank, n) = (comm.rank().index(), comm.size());
    let own = rank as f32;
    let (mut x, mut y) = (vec![own; 3], vec![0.0; 3]);
    let mut all = vec![0.0; 3 * n];
    let (send, recv, whole) = (floats(&mut x), floats(&mut y), floats(&mut all));
    let sum = (n * (n - 1) / 2) as f32;
    let raw = comm.raw();
    let done = |values: &[f32], wanted: &[f32]| {
        comm.sync(comm.stream())?;
        assert_eq!(values, wanted);
        Ok::<_, Error>(())
    };

    // SAFETY: here and below, the vectors stay, and are looked at after a wait only.
    unsafe { raw.all_reduce(send, recv, DynReduceOp::Add) }?;
    done(&y, &[sum; 3])?;
    let root = n - 1;
    let from = (rank == root).then_some(send);
    // SAFETY: see above.
    unsafe { raw.broadcast(from, recv, root) }?;
    done(&y, &[root as f32; 3])?;
    // What only the root has is not looked at elsewhere: null is fine there.
    let to = if rank == root { recv } else { RawPart::new(null_mut(), 3, DType::F32) };
    // SAFETY: see above.
    unsafe { raw.reduce(send, Some(to), DynReduceOp::Greatest, root) }?;
    done(&y, &[root as f32; 3])?;
    // SAFETY: see above.
    unsafe { raw.all_gather(send, whole) }?;
    let gathered: Vec<_> = (0..3 * n).map(|i| (i / 3) as f32).collect();
    done(&all, &gathered)?;
    // SAFETY: see above.
    unsafe { raw.reduce_scatter(whole, recv, DynReduceOp::Add) }?;
    done(&y, &[own * n as f32; 3])
}

/// The same elements for both sides, or this rank's part of all.
fn in_place<W: World>(comm: &Communicator<W>) -> Result<()> {
    let (rank, n) = (comm.rank().index(), comm.size());
    let sum = (n * (n - 1) / 2) as f32;
    let mut x = vec![rank as f32; 2 * n];
    let all = floats(&mut x);
    let own = RawPart::new(all.start.wrapping_byte_add(8 * rank), 2, DType::F32);
    let raw = comm.raw();
    // SAFETY: here and below, the vector stays, and is looked at after a wait only.
    unsafe { raw.all_reduce(all, all, DynReduceOp::Add) }?;
    comm.sync(comm.stream())?;
    assert_eq!(x, vec![sum; 2 * n]);
    x.iter_mut().enumerate().for_each(|(i, x)| *x = (i / 2 + rank) as f32);
    // SAFETY: see above.
    unsafe { raw.reduce_scatter(all, own, DynReduceOp::Add) }?;
    comm.sync(comm.stream())?;
    assert_eq!(x[2 * rank], (n * rank) as f32 + sum);
    // SAFETY: see above.
    unsafe { raw.all_gather(own, all) }?;
    // SAFETY: see above; as the call before it on the stream.
    unsafe { raw.broadcast(Some(all), all, 0) }?;
    comm.sync(comm.stream())?;
    let gathered: Vec<_> = (0..2 * n).map(|i| (n * (i / 2)) as f32 + sum).collect();
    assert_eq!(x, gathered);
    Ok(())
}

/// A ring, in a group with a collective, on another stream.
fn grouped<W: World>(comm: &Communicator<W>) -> Result<()> {
    let (rank, n) = (comm.rank().index(), comm.size());
    let stream = comm.device().stream()?;
    let (mut mine, mut theirs, mut flags) = (vec![rank as u16; 5], vec![9_u16; 5], vec![1_u32; 2]);
    let flag = part(&mut flags, DType::U32);
    let ops = [
        RawOp::SendTo { part: part(&mut mine, DType::U16), to: (rank + 1) % n },
        RawOp::AllReduce { send: flag, recv: flag, op: DynReduceOp::Add },
        RawOp::RecvFrom { part: part(&mut theirs, DType::U16), from: (rank + n - 1) % n },
        // Without elements any address will do.
        RawOp::SendTo { part: RawPart::new(null_mut(), 0, DType::U8), to: (rank + 1) % n },
        RawOp::RecvFrom { part: RawPart::new(null_mut(), 0, DType::U8), from: (rank + n - 1) % n },
    ];
    // SAFETY: the vectors stay, and are looked at after the wait only.
    unsafe { comm.on(&stream).raw().group(&ops) }?;
    // SAFETY: nothing is named.
    unsafe { comm.raw().group(&[]) }?;
    comm.sync(&stream)?;
    assert_eq!((theirs, flags), (vec![((rank + n - 1) % n) as u16; 5], vec![n as u32; 2]));
    Ok(())
}

#[test]
fn operations_move_what_is_at_the_address() -> Result<()> {
    [1, 2, 3].into_iter().try_for_each(|n| {
        spmd::<Host>(n, |place| {
            let comm = place.init()?;
            apart(&comm)?;
            in_place(&comm)?;
            grouped(&comm)?;
            comm.finish()
        })
    })
}

/// One rank has buffers of ours, the other addresses.
#[test]
fn ranks_meet_through_either_door() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        if comm.rank().index() == 0 {
            let mut x = comm.device().from_slice(&[1_i64, 2])?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            comm.send(&x, 1)?;
            assert_eq!(x.to_vec()?, [11, 22]);
        } else {
            let (mut x, mut y) = (vec![10_i64, 20], vec![0_i64; 2]);
            let (both, recv) = (part(&mut x, DType::I64), part(&mut y, DType::I64));
            // SAFETY: the vectors stay, and are looked at after the wait only.
            unsafe { comm.raw().all_reduce(both, both, DynReduceOp::Add) }?;
            // SAFETY: see above.
            unsafe { comm.raw().recv(recv, 0) }?;
            comm.sync(comm.stream())?;
            assert_eq!((x, y), (vec![11, 22], vec![11, 22]));
        }
        comm.finish()
    })
}

/// `bad` on rank 1 while rank 0 calls `all_reduce` of three floats: both are told, and the
/// communicator goes on.
fn refused(bad: impl Fn(&Raw<'_, Dev>) -> Result<()> + Sync, words: &[&str]) {
    let run = |seat: Seat| {
        let ordinal = seat.rank().index() as u32;
        let comm = seat.init(Dev::any(ordinal)?)?;
        let mut x = vec![1.0; 3];
        let whole = floats(&mut x);
        if comm.rank().index() == 1 {
            let error = bad(&comm.raw()).expect_err("it is refused");
            assert!(error.is_refusal(), "{error}");
            says(&error, words);
        } else {
            // SAFETY: the vector stays until the wait is over.
            unsafe { comm.raw().all_reduce(whole, whole, DynReduceOp::Add) }?;
            let told = comm.sync(comm.stream()).expect_err("rank 1 refused");
            assert!(matches!(told, Error::Refused(_)), "{told}");
            says(&told, words);
        }
        comm.health()?;
        let mut y = comm.device().from_slice(&[1_u8])?;
        comm.all_reduce_in_place(&mut y, Sum)?;
        assert_eq!(y.to_vec()?, [2]);
        comm.finish()
    };
    thread::scope(|scope| {
        let ranks: Vec<_> =
            Seat::local(2).into_iter().map(|seat| scope.spawn(|| run(seat))).collect();
        ranks.into_iter().for_each(|rank| rank.join().expect("no panic").expect("no error"));
    });
}

/// As [`refused`], for an `all_reduce` from and into these.
fn refused_parts(of: impl Fn(RawPart) -> (RawPart, RawPart) + Sync, words: &[&str]) {
    let bad = |raw: &Raw<'_, Dev>| {
        let mut x = vec![0.0; 8];
        let (send, recv) = of(floats(&mut x));
        // SAFETY: it is refused.
        unsafe { raw.all_reduce(send, recv, DynReduceOp::Add) }
    };
    refused(bad, words);
}

#[test]
fn what_an_address_shows_is_checked() {
    let nowhere = |len| RawPart::new(null_mut(), len, DType::F32);
    refused_parts(|x| (nowhere(3), x), &["all_reduce", "null", "tests/by_address.rs"]);
    let odd = |x: RawPart| RawPart { start: x.start.wrapping_byte_add(1), ..x };
    refused_parts(|x| (x, odd(x)), &["all_reduce", "no multiple of 4"]);
    let endless = |x| RawPart { len: usize::MAX, ..x };
    refused_parts(|x| (endless(x), x), &["all_reduce", "more bytes than memory can have"]);
    let three =
        |x: RawPart, from: usize| RawPart::new(x.start.wrapping_byte_add(4 * from), 3, DType::F32);
    refused_parts(|x| (three(x, 0), three(x, 2)), &["all_reduce", "elements in common"]);
    refused_parts(|x| (three(x, 0), RawPart { len: 2, ..three(x, 3) }), &["receive buffer", "3"]);
    let ints = |x| RawPart { dtype: DType::I32, ..x };
    refused_parts(|x| (three(x, 0), ints(three(x, 3))), &["all_reduce", "f32", "i32"]);
}

#[test]
fn operators_and_ranks_are_checked() {
    refused(
        |raw| {
            let mut x = vec![0_u8; 4];
            let x = part(&mut x, DType::Bool);
            // SAFETY: it is refused.
            unsafe { raw.all_reduce(x, x, DynReduceOp::Add) }
        },
        &["all_reduce", "bool"],
    );
    refused(
        |raw| {
            let mut x = vec![0.0; 4];
            // SAFETY: it is refused.
            unsafe { raw.broadcast(None, floats(&mut x), 7) }
        },
        &["broadcast", "no rank 7", "of 2"],
    );
    refused(
        |raw| {
            let mut x = vec![0.0; 4];
            // SAFETY: it is refused.
            unsafe { raw.broadcast(None, floats(&mut x), 1) }
        },
        &["broadcast", "root"],
    );
    // One bad operation refuses the group.
    refused(
        |raw| {
            let mut x = vec![0.0; 4];
            let (x, bad) = (floats(&mut x), RawPart::new(null_mut(), 1, DType::F32));
            let good = RawOp::AllReduce { send: x, recv: x, op: DynReduceOp::Add };
            // SAFETY: it is refused.
            unsafe { raw.group(&[good, RawOp::RecvFrom { part: bad, from: 9 }]) }
        },
        &["recv", "null"],
    );
}

#[test]
fn counts_that_differ_between_ranks_are_a_mismatch() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = vec![1.0; 3 + comm.rank().index()];
        let both = floats(&mut x);
        // SAFETY: the vector stays until the wait is over.
        unsafe { comm.raw().all_reduce(both, both, DynReduceOp::Add) }?;
        let error = comm.sync(comm.stream()).expect_err("the counts differ");
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        says(&error, &["3 f32", "4 f32", "tests/by_address.rs"]);
        Ok(())
    })
}

/// A rank that dies before its turn: the others are told, at the wait and at the next call.
#[test]
fn a_dead_rank_is_told() {
    watched(|| {
        let both_are_there = Arc::new(Barrier::new(2));
        let ranks = Seat::local(2).into_iter().map(|seat| {
            let both_are_there = both_are_there.clone();
            thread::spawn(move || {
                let rank = seat.rank().index();
                let comm = seat.init(Dev::any(rank as u32)?)?;
                both_are_there.wait();
                if rank == 1 {
                    let died = catch_unwind(AssertUnwindSafe(move || {
                        let _comm = comm;
                        panic!("it dies")
                    }));
                    assert!(died.is_err());
                    return Ok(());
                }
                let mut x = vec![1.0; 3];
                let both = floats(&mut x);
                // SAFETY: the vector stays until the communicator has failed.
                let issued = unsafe { comm.raw().all_reduce(both, both, DynReduceOp::Add) };
                let error = issued.and_then(|()| comm.sync(comm.stream()));
                let error = error.expect_err("rank 1 is dead");
                assert!(matches!(error, Error::PeerFailed(_)), "{error}");
                // SAFETY: it is refused.
                let again = unsafe { comm.raw().send(both, 1) }.expect_err("it is poisoned");
                assert!(matches!(again, Error::PeerFailed(_)), "{again}");
                drop(comm.abort());
                Ok::<_, Error>(())
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().try_for_each(|rank| rank.join().expect("it ends"))
    });
}

/// A graph would name the memory after the promise has ended.
#[test]
fn a_graph_keeps_no_address() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut x = vec![1.0; 3];
        let both = floats(&mut x);
        let captured = comm.capture(|g| {
            // SAFETY: it is refused.
            unsafe { g.raw().all_reduce(both, both, DynReduceOp::Add) }
        });
        let error = captured.map(drop).expect_err("nothing keeps the memory");
        assert!(matches!(error, Error::NotCapturable(_)), "{error}");
        comm.finish()
    })
}
