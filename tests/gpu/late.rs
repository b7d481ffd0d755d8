//! A late rank: the others name it, leave it out and continue.

use std::sync::Barrier;

use typed_nccl::{CommConfig, Communicator, Cuda, Device, Error, Result, Stragglers, Sum, World};

use crate::common::{ranks, seconds};

fn adds_up<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [comm.size() as u64]);
    Ok(())
}

pub(crate) fn one_that_is_late_is_named() -> Result<()> {
    let n = ranks()?;
    let (called, found) = (Barrier::new(n - 1), Barrier::new(n));
    Cuda::spmd(n, |place| -> Result<()> {
        let comm = place.init()?;
        adds_up(&comm)?;
        let mut x = comm.device().from_slice(&[1_u64])?;
        if comm.rank().index() == n - 1 {
            found.wait();
            (0..3).try_for_each(|_| comm.all_reduce_in_place(&mut x, Sum))?;
        } else {
            (0..3).try_for_each(|_| comm.all_reduce_in_place(&mut x, Sum))?;
            called.wait();
            let late = loop {
                if let Some(late) = comm.health()?.late().first() {
                    break *late;
                }
            };
            assert_eq!((late.rank.index(), late.operations), (n - 1, 3));
            found.wait();
        }
        comm.sync(comm.stream())?;
        comm.barrier()?;
        comm.finish()
    })?;
    Ok(())
}

pub(crate) fn one_that_is_late_is_left_out() -> Result<()> {
    let n = ranks()?;
    let over = Barrier::new(n);
    Cuda::spmd(n, |place| -> Result<()> {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().deadline(seconds(60));
        let after = seconds(5);
        let config = match seat.rank().index() {
            0 => config.stragglers(Stragglers::LeaveOut(after)).build(),
            _ => config.build(),
        };
        let comm = Communicator::builder().seat(seat).device(device).config(config);
        let mut comm = comm.build().connect()?;
        adds_up(&comm)?;
        comm.barrier()?;
        if comm.rank().index() == n - 1 {
            over.wait();
            let error = adds_up(&comm).expect_err("the others went on");
            assert!(error.is_peer_failure(), "{error}");
            let error = comm.recover().expect_err("the others went on");
            assert!(matches!(error, Error::Excluded(_)), "{error}");
            comm.abort();
            return Ok(());
        }
        let error = adds_up(&comm).expect_err("one is missing");
        assert!(error.to_string().contains("is late by 1 operation"), "{error}");
        let recovery = comm.recover()?;
        assert_eq!((comm.size(), recovery.lost[0].rank.index()), (n - 1, n - 1), "{recovery}");
        adds_up(&comm)?;
        over.wait();
        comm.finish()
    })?;
    Ok(())
}
