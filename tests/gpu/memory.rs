//! Memory in flight: dropped, used on several streams, scaled by values on the device.

use std::sync::Barrier;
use std::time::Instant;

use typed_nccl::{Cuda, Error, Result, Sum, tag};

use crate::common::{connect, ranks, soon};

tag!(Second);

/// Buffers dropped while operations run are not reused.
pub(crate) fn dropped_in_flight() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 30)?;
        let len = 8 << 20;
        for turn in 0..5_u32 {
            let mut busy = comm.device().from_slice(&vec![turn; len])?;
            for _ in 0..4 {
                comm.all_reduce_in_place(&mut busy, Sum)?;
            }
            drop(busy);
            let fresh = comm.device().zeros::<u32>(len)?;
            comm.sync(comm.stream())?;
            assert!(fresh.to_vec()?.iter().all(|&x| x == 0), "turn {turn}");
        }
        comm.finish()
    })
    .map(drop)
}

/// Operations on one buffer keep their order, on any streams.
pub(crate) fn order_across_streams() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 30)?;
        let n = comm.size() as u64;
        let streams = [comm.device().stream()?, comm.device().stream()?, comm.device().stream()?];
        let len = 4 << 20;
        let mut x = comm.device().from_slice(&vec![1_u64; len])?;
        let mut y = comm.device().zeros::<u64>(len)?;
        let mut power = 1;
        for turn in 0..12 {
            let here = comm.on(&streams[turn % 3]);
            here.all_reduce(&x, &mut y, Sum)?;
            let there = comm.on(&streams[(turn + 1) % 3]);
            there.broadcast_in_place(&mut y, turn % comm.size())?;
            std::mem::swap(&mut x, &mut y);
            power = u64::wrapping_mul(power, n);
        }
        assert!(x.to_vec()?.iter().all(|&one| one == power));
        // A mark orders streams explicitly.
        let mark = streams[0].mark()?;
        streams[1].wait_for(&mark)?;
        comm.wait(&mark)?;
        assert!(mark.is_reached()?);
        // Also on a thread that never used the GPU.
        let elsewhere =
            std::thread::scope(|scope| scope.spawn(|| mark.is_reached()).join().expect("no panic"));
        assert!(elsewhere?);
        let stream = comm.device().stream()?;
        stream.launch(&mut x, |_, _| ())?;
        let used = std::thread::scope(|scope| {
            let away = scope.spawn(move || -> Result<Vec<u64>> {
                x.copy_from(&vec![3; len])?;
                x.to_vec()
            });
            away.join().expect("no panic")
        });
        assert_eq!(used?, vec![3; len]);
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn scalars_on_host_and_device() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 30)?;
        let (rank, n) = (comm.rank().index(), comm.size());
        for turn in 0..20 {
            let factor = (rank + turn) as f32;
            let scalar = comm.device().from_slice(&[factor])?;
            let scaled = comm.pre_mul_sum_device(scalar)?;
            let twice = comm.pre_mul_sum(2.0 * factor)?;
            let mut x = comm.device().from_slice(&[1.0_f32; 100])?;
            let mut y = comm.device().from_slice(&[1.0_f32; 100])?;
            comm.all_reduce_in_place(&mut x, &scaled)?;
            comm.all_reduce_in_place(&mut y, &twice)?;
            // Their operations may still run.
            drop((scaled, twice));
            let sum: f32 = (0..n).map(|rank| (rank + turn) as f32).sum();
            assert_eq!(x.to_vec()?, [sum; 100]);
            assert_eq!(y.to_vec()?, [2.0 * sum; 100]);
        }
        comm.finish()
    })
    .map(drop)
}

/// Two communicators, one after the other on one buffer, each on its own stream.
pub(crate) fn two_communicators_on_the_same_gpus() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut first = connect(place, 30)?;
        let second = first.split::<Second>(0, 0)?;
        let mut x = first.device().from_slice(&[1_i32; 1000])?;
        for _ in 0..50 {
            first.all_reduce_in_place(&mut x, typed_nccl::Max)?;
            second.all_reduce_in_place(&mut x, typed_nccl::Max)?;
        }
        assert_eq!(x.to_vec()?, [1; 1000]);
        first.finish()?;
        second.finish()
    })
    .map(drop)
}

/// Transfers without elements are transfers too.
pub(crate) fn transfers_of_nothing() -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 15)?;
        let peer = comm.ring(1);
        let first = comm.rank().index() == 0;
        let mine = comm.device().from_slice(&[7_u32; 3000])?;
        let mut theirs = comm.device().zeros::<u32>(3000)?;
        for len in [0, 2515, 0, 1, 0, 0, 3000] {
            let (send, mut recv) = (mine.slice(0..len), theirs.slice_mut(0..len));
            match first {
                true => comm.send(&send, peer)?,
                false => comm.recv(&mut recv, peer)?,
            }
            match first {
                true => comm.recv(&mut recv, peer)?,
                false => comm.send(&send, peer)?,
            }
            comm.group(|g| {
                g.send(mine.slice(0..len), peer)?;
                g.recv(theirs.slice_mut(0..len), peer)
            })?;
            comm.all_reduce_in_place(&mut theirs.slice_mut(0..len), typed_nccl::Max)?;
        }
        assert_eq!(theirs.to_vec()?, [7; 3000]);
        comm.finish()
    })
    .map(drop)
}

/// Freeing memory waits for the device, and so for the rank that does not come.
pub(crate) fn out_of_memory_while_a_rank_waits() -> Result<()> {
    let started = Instant::now();
    let together = Barrier::new(2);
    Cuda::spmd(2, |place| {
        let comm = connect(place, 40)?;
        let mut x = comm.device().from_slice(&[1_i32; 10])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.sync(comm.stream())?;
        if comm.rank().index() == 0 {
            // So much that twice as much exceeds the GPU's memory.
            let mut large = 1_usize << 30;
            while comm.device().zeros::<u8>(2 * large).is_ok() {
                large *= 2;
            }
            drop(comm.device().zeros::<u8>(large)?);
            comm.all_reduce_in_place(&mut x, Sum)?;
            let error = comm.device().zeros::<u8>(2 * large - 1).map(drop).expect_err("no memory");
            assert!(matches!(error, Error::NoMemory(_)), "{error}");
            println!("{error}");
            together.wait();
        } else {
            together.wait();
            comm.all_reduce_in_place(&mut x, Sum)?;
        }
        comm.sync(comm.stream())?;
        comm.finish()
    })?;
    soon(started);
    Ok(())
}
