//! Mistakes in which NCCL hangs or returns wrong data, and the errors here.

use std::time::Instant;

use typed_nccl::{Avg, Communicator, Cuda, Error, F8E4M3, Max, Result, Root, Sum};

use crate::common::{connect, ranks, says, seconds, soon};

/// Every rank makes the call of `call`, and gets the error that they differ.
fn differs(
    parts: &[&str],
    call: impl for<'id> Fn(&Communicator<Cuda<typed_nccl::Scoped<'id>>>) -> Result<()> + Sync,
) -> Result<()> {
    let started = Instant::now();
    Cuda::spmd(2, |place| {
        let comm = connect(place, 40)?;
        // A rank whose own part is over gets the error while it waits for the other.
        let over = call(&comm).and_then(|()| comm.sync(comm.stream()));
        let error = over.and_then(|()| comm.barrier()).expect_err("they differ");
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        says(&error, parts);
        says(&error, &["#0 ", " on World differs between ranks", "has ended"]);
        assert!(comm.health().is_err());
        Ok::<_, Error>(())
    })?;
    soon(started);
    Ok(())
}

pub(crate) fn lengths_that_differ() -> Result<()> {
    differs(&["rank 0 called all_reduce of 256 f32", "rank 1 called all_reduce of 512"], |comm| {
        let len = 256 << comm.rank().index();
        let mut x = comm.device().zeros::<f32>(len)?;
        comm.all_reduce_in_place(&mut x, Sum)
    })
}

pub(crate) fn reductions_that_differ() -> Result<()> {
    differs(&["256 f32, Sum", "256 f32, Max", "tests/gpu/errors.rs"], |comm| {
        let mut x = comm.device().zeros::<f32>(256)?;
        match comm.rank().index() {
            0 => comm.all_reduce_in_place(&mut x, Sum),
            _ => comm.all_reduce_in_place(&mut x, Max),
        }
    })
}

/// NCCL finishes these, with wrong data.
pub(crate) fn roots_that_differ() -> Result<()> {
    differs(&["root 0", "root 1"], |comm| {
        let mut x = comm.device().zeros::<f32>(256)?;
        comm.broadcast_in_place(&mut x, comm.rank())
    })
}

pub(crate) fn operations_in_another_order() -> Result<()> {
    differs(&["all_reduce", "broadcast"], |comm| {
        let mut x = comm.device().zeros::<f32>(256)?;
        if comm.rank().index() == 0 {
            comm.all_reduce_in_place(&mut x, Sum)?;
        }
        comm.broadcast_in_place(&mut x, 0)?;
        if comm.rank().index() == 1 {
            comm.all_reduce_in_place(&mut x, Sum)?;
        }
        Ok(())
    })
}

pub(crate) fn transfers_that_differ() -> Result<()> {
    differs(&["rank 0 called send of 256 f32 to 1", "rank 1 called recv of 1024 f32"], |comm| {
        let (x, mut y) = (comm.device().zeros::<f32>(256)?, comm.device().zeros::<f32>(1024)?);
        match comm.rank().index() {
            0 => comm.send(&x, 1),
            _ => comm.recv(&mut y, 0),
        }
    })
}

pub(crate) fn transfers_in_another_order() -> Result<()> {
    differs(&["rank 0 called send of 256 f32 to 1", "rank 1 called recv of 1024 f32"], |comm| {
        let (mut x, mut y) = (comm.device().zeros::<f32>(256)?, comm.device().zeros::<f32>(1024)?);
        if comm.rank().index() == 0 {
            comm.send(&x, 1)?;
            return comm.send(&y, 1);
        }
        comm.recv(&mut y, 0)?;
        comm.recv(&mut x, 0)
    })
}

/// 16 MiB; NCCL may well complete it anyway.
pub(crate) fn a_send_that_nobody_receives() -> Result<()> {
    let started = Instant::now();
    Cuda::spmd(2, |place| {
        let comm = connect(place, 40)?;
        let x = comm.device().zeros::<f32>(4 << 20)?;
        // The first send connects, and NCCL may block it until the error arrives.
        let sent = if comm.rank().index() == 0 { comm.send(&x, 1) } else { Ok(()) };
        let finished = sent.and_then(|()| comm.finish());
        let error = finished.expect_err("it is never met");
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
        says(&error, &["transfer #0 (send of 4194304 f32 to 1", "tests/gpu/errors.rs"]);
        Ok::<_, Error>(())
    })?;
    soon(started);
    Ok(())
}

/// Unmatched transfers, beside collectives that all ranks call.
pub(crate) fn a_report_has_every_call_in_order() -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 30)?;
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
        let first = comm.rank().index() == 0;
        for _ in 0..2 {
            match first {
                true => comm.send(&x, 1)?,
                false => comm.recv(&mut y, 0)?,
            }
            comm.all_reduce_in_place(&mut y, Sum)?;
        }
        comm.sync(comm.stream())?;
        let comm = comm.within(seconds(3));
        // A send that is never received may complete; a receive of nothing never does.
        let outcome = match first {
            true => Ok(()),
            false => comm.recv(&mut y, 0),
        };
        let error = outcome.and_then(|()| comm.all_reduce_in_place(&mut y, Max));
        let error = error.and_then(|()| comm.sync(comm.stream())).expect_err("nobody sends");
        // One rank may get the error from the other, whose text has the report.
        says(&error, &["the last 8 calls of each rank on World, in order:"]);
        let text = error.to_string();
        let report = &text[text.find("rank 1, ").expect("its calls")..];
        let recv = "    recv of 8 f32 from 0, at tests/gpu/errors.rs:";
        assert!(report.matches(recv).count() >= 3, "{text}");
        Ok::<_, Error>(())
    })
    .map(drop)
}

pub(crate) fn a_refusal_is_told() -> Result<()> {
    let started = Instant::now();
    Cuda::spmd(2, |place| {
        let comm = connect(place, 40)?;
        let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(16)?);
        // NCCL's first collective connects the ranks and blocks its caller until they are present.
        comm.all_gather(&x, &mut y)?;
        let error = if comm.rank().index() == 1 {
            // 8 elements from each of 2 ranks do not fit into 8.
            let error = comm.all_gather(&x, &mut y.slice_mut(0..8)).expect_err("refused");
            // The communicator's state is not checked: the other rank may have got the error
            // already.
            assert!(error.is_refusal(), "{error}");
            error
        } else {
            comm.all_gather(&x, &mut y)?;
            let error = y.to_vec().expect_err("rank 1 does not take part");
            says(&error, &["all_gather of 8 f32", "rank 1 refused its part"]);
            error
        };
        says(&error, &["the receive buffer holds 8 f32, 2 ranks x 8 need 16"]);
        Ok::<_, Error>(())
    })?;
    soon(started);
    Ok(())
}

pub(crate) fn a_refusal_of_all_harms_nothing() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 20)?;
        let n = comm.size();
        let mut x = comm.device().from_slice(&vec![1_i32; n])?;
        for _ in 0..3 {
            let root = comm.reduce_in_place(&mut x, Sum, n).expect_err("no such root");
            assert!(root.is_refusal());
            let past = comm.all_reduce_in_place(&mut x.slice_mut(0..n + 1), Sum);
            assert!(matches!(past, Err(Error::BadRange(_))));
            let none = comm.broadcast(
                Root::<&typed_nccl::Buffer<i32, _>>::There(typed_nccl::Rank::from_index(n)),
                &mut x,
            );
            assert!(none.is_err_and(|error| error.is_refusal()));
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, vec![n as i32; n]);
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn scaling_8_bits_on_one_rank() -> Result<()> {
    let mut comm = typed_nccl::Seat::local(1).remove(0).init(Cuda::local()?)?;
    let one = F8E4M3::from_f32(1.0);
    let mut x = comm.device().from_slice(&[one; 16])?;
    let scaled = comm.pre_mul_sum(one)?;
    let error = comm.all_reduce_in_place(&mut x, &scaled).expect_err("NCCL cannot");
    says(&error, &["PreMulSum", "two ranks or more"]);
    assert!(error.is_refusal() && comm.health().is_ok());
    comm.all_reduce_in_place(&mut x, Avg)?;
    assert_eq!(x.to_vec()?, [one; 16]);
    comm.finish()
}

/// One rank's operand is in a window and the other's is not: each rank's NCCL chooses its own
/// kernel.
pub(crate) fn memory_that_differs() -> Result<()> {
    let started = Instant::now();
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 40)?;
        let mut window = comm.window::<f32>(1 << 16)?;
        let mut plain = comm.device().nccl_zeros::<f32>(1 << 16)?;
        comm.all_reduce_in_place(&mut plain, Sum)?;
        comm.sync(comm.stream())?;
        let called = match comm.rank().index() {
            0 => comm.all_reduce_in_place(&mut window, Sum),
            _ => comm.all_reduce_in_place(&mut plain, Sum),
        };
        let error = called.and_then(|()| comm.sync(comm.stream())).expect_err("they differ");
        says(
            &error,
            &["the memory of collective #1", "both sides in windows", "neither in a window"],
        );
        Ok::<_, Error>(())
    })?;
    soon(started);
    Ok(())
}
