//! Refusals of calls that are several for the other ranks: exchanges of messages, and reductions of
//! several buffers.

use std::thread;

use typed_nccl::error::Error;
use typed_nccl::{Host, Result, Seat, Sum};

use crate::ranks::spmd;

/// The second leg is refused on rank 0: its peer hears of that, and the first of the next exchange
/// is not taken for it.
#[test]
fn a_leg_at_fault() {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let kernels = comm.kernels()?;
        let other = comm.ring(1);
        let x = comm.device().from_slice(&[comm.rank().index() as f32; 4])?;
        let mut small = comm.device().zeros::<f32>(3)?;
        let (mut first, mut second) =
            (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        let refused = comm.rank().index() == 0;
        let exchange = kernels.exchange(&comm).leg(&x, other, &mut first, other);
        match refused {
            true => {
                let outcome = exchange.leg(&x, other, &mut small, other).run();
                assert!(matches!(outcome, Err(Error::BadLength(_))), "{outcome:?}");
            }
            false => {
                exchange.leg(&x, other, &mut second, other).run()?;
                let told = second.to_vec().expect_err("rank 0 refused");
                assert!(told.to_string().contains("rank 0 refused"), "{told}");
                // The first leg's error is reported too, once.
                let _ = comm.sync(comm.stream());
            }
        }
        let mut after = comm.device().zeros::<f32>(4)?;
        kernels.exchange(&comm).leg(&x, other, &mut after, other).run()?;
        assert_eq!(after.to_vec()?, [other.index() as f32; 4]);
        comm.finish()
    })
    .expect("the exchange after it is right");
}

/// One of two buffers is on another device, on rank 0: rank 1 hears of both, and the next
/// all_reduce meets the next one.
#[test]
fn one_of_several_buffers_at_fault() -> Result<()> {
    let ranks = Seat::local(2).into_iter().enumerate().map(|(rank, seat)| {
        move || -> Result<()> {
            let comm = seat.init(Host::any(rank as u32)?)?;
            let kernels = comm.kernels()?;
            let elsewhere = Host::any(if rank == 0 { 7 } else { 1 })?;
            let mut bufs = vec![elsewhere.zeros::<f32>(4)?, comm.device().zeros(4)?];
            let outcome = kernels.all_reduce_each_in_place(&comm, &mut bufs, Sum);
            match rank {
                0 => assert!(matches!(outcome, Err(Error::OtherDevice(_))), "{outcome:?}"),
                _ => {
                    outcome?;
                    let told = bufs[1].to_vec().expect_err("rank 0 refused");
                    assert!(told.to_string().contains("rank 0 refused"), "{told}");
                    let _ = comm.sync(comm.stream());
                }
            }
            let mut after = comm.device().from_slice(&[1.0_f32; 4])?;
            comm.all_reduce_in_place(&mut after, Sum)?;
            assert_eq!(after.to_vec()?, [2.0; 4]);
            comm.finish()
        }
    });
    let ranks: Vec<_> = ranks.map(thread::spawn).collect();
    ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
}
