//! Groups: every operation that they record, with checked results.

use typed_nccl::{Cuda, Result, Root, Signals, Sum, group, tag};

use crate::common::{busy, connect, ranks, says};
use crate::windows::one_sided;

/// Different lengths, out of place and in place, alone, on another stream and in a group.
pub(crate) fn uneven_in_every_form() -> Result<()> {
    let ranks = ranks()?;
    Cuda::spmd(ranks, |place| {
        let mut comm = connect(place, 20)?;
        let rank = comm.rank().index();
        let device = comm.device().clone();
        let stream = device.stream()?;
        let counts: Vec<usize> = (0..ranks).map(|to| 1000 * rank + 300 * to).collect();
        let splits = comm.splits(&counts)?;
        let sent: Vec<u32> =
            (0..ranks).flat_map(|to| vec![(rank * 100 + to) as u32; counts[to]]).collect();
        let received: Vec<u32> = (0..ranks)
            .flat_map(|from| vec![(from * 100 + rank) as u32; 1000 * from + 300 * rank])
            .collect();
        let send = device.from_slice(&sent)?;
        let (mut there, mut back) =
            (device.zeros::<u32>(received.len())?, device.zeros::<u32>(sent.len())?);
        comm.all_to_all_v(&send, &mut there, &splits)?;
        comm.on(&stream).all_to_all_v(&there, &mut back, &splits.transposed())?;
        assert_eq!(there.to_vec()?, received);
        assert_eq!(back.to_vec()?, sent);

        // Rank 0's block is empty.
        let blocks = comm.blocks(777)?.scaled(0)?;
        assert_eq!(blocks.total(), 0);
        let blocks = comm.blocks(777 * rank)?;
        let own = blocks.range_at(comm.rank());
        let mut all = device.zeros::<u32>(blocks.total())?;
        all.slice_mut(own.clone()).copy_from(&vec![rank as u32; own.len()])?;
        comm.on(&stream).all_gather_v_in_place(&mut all, &blocks)?;
        let everything: Vec<u32> = (0..ranks).flat_map(|r| vec![r as u32; 777 * r]).collect();
        assert_eq!(all.to_vec()?, everything);
        let (mut other, mut part) =
            (device.zeros::<u32>(all.len())?, device.zeros::<u32>(own.len())?);
        let mine = device.from_slice(&vec![rank as u32; own.len()])?;
        comm.group(|g| {
            g.all_gather_v(&mine, &mut other, &blocks)?;
            g.reduce_scatter_v(&all, &mut part, Sum, &blocks)
        })?;
        let (root, mut gathered) = (ranks - 1, device.zeros::<u32>(all.len())?);
        let mut scattered = device.zeros::<u32>(own.len())?;
        let is_root = rank == root;
        let into = Root::here_or_at(is_root.then_some(&mut gathered), root);
        comm.gather_v(&mine, into, &blocks)?;
        let from = Root::here_or_at(is_root.then_some(&gathered), root);
        comm.scatter_v(from, &mut scattered, &blocks)?;
        assert_eq!(scattered.to_vec()?, mine.to_vec()?);
        comm.reduce_scatter_v_in_place(&mut all, Sum, &blocks)?;
        let reduced = vec![(rank * ranks) as u32; own.len()];
        assert_eq!(all.to_vec()?[own], reduced);
        assert_eq!(part.to_vec()?, reduced);
        assert_eq!(other.to_vec()?, everything);
        comm.finish()
    })
    .map(drop)
}

/// The collectives with a root and two buffers, and signals in slots.
pub(crate) fn rooted_and_slots() -> Result<()> {
    let (ranks, one_sided) = (ranks()?, one_sided()?);
    Cuda::spmd(ranks, |place| {
        let mut comm = connect(place, 20)?;
        let (rank, root) = (comm.rank().index(), ranks - 1);
        let device = comm.device().clone();
        let whole = device.from_slice(&(0..ranks as u32).collect::<Vec<_>>())?;
        let (mut copy, mut block) = (device.zeros::<u32>(ranks)?, device.zeros::<u32>(1)?);
        let mine = device.from_slice(&[7 * rank as u32])?;
        let mut all = (rank == root).then(|| device.zeros::<u32>(ranks)).transpose()?;
        let _window = one_sided.then(|| comm.window::<u32>(1)).transpose()?;
        let slot = comm.signal_in(0, 0)?;
        let (left, right) = (comm.ring(-1), comm.ring(1));
        comm.group(|g| {
            let sends = (rank == root).then_some(&whole);
            g.broadcast(Root::here_or_at(sends, root), &mut copy)?;
            g.scatter(Root::here_or_at(sends, root), &mut block)?;
            g.gather_into(&mine, Root::here_or_at(all.as_mut(), root))?;
            if one_sided { g.signal_slot(right, slot) } else { Ok(()) }
        })?;
        if one_sided {
            comm.wait_signals(Signals::new().expect_in(left, slot, 1))?;
        }
        assert_eq!(copy.to_vec()?, whole.to_vec()?);
        assert_eq!(block.to_vec()?, [rank as u32]);
        if let Some(all) = all {
            assert_eq!(all.to_vec()?, (0..ranks as u32).map(|r| 7 * r).collect::<Vec<_>>());
        }
        comm.finish()
    })
    .map(drop)
}

tag!(Rows, Cols, Pair);

/// Two communicators in one launch: on the same GPUs, on one stream and on two, named in either
/// order.
pub(crate) fn several_communicators() -> Result<()> {
    let ranks = ranks()?;
    Cuda::spmd(ranks, |place| {
        let mut world = connect(place, 20)?;
        let (rank, device) = (world.rank().index(), world.device().clone());
        let mut rows = world.split::<Rows>(0, 0)?;
        // In reverse.
        let mut cols = world.split::<Cols>(0, -(rank as i64))?;
        let other = device.stream()?;
        let (mut x, mut y) = (device.zeros::<u32>(100_000)?, device.zeros::<u32>(77)?);
        let mut from = device.zeros::<u32>(77)?;
        let total = (0..ranks as u32).sum::<u32>();
        for round in 0..20 {
            x.copy_from(&vec![rank as u32; 100_000])?;
            y.copy_from(&[rank as u32; 77])?;
            let right = cols.ring(1);
            let left = cols.ring(-1);
            match (round + rank) % 3 {
                0 => group((&mut rows, &mut cols), |(rows, cols)| {
                    rows.all_reduce_in_place(&mut x, Sum)?;
                    cols.send(&y, right)?;
                    cols.recv(&mut from, left)
                })?,
                1 => group(((&mut cols, &other), (&mut rows, &other)), |(cols, rows)| {
                    cols.send(&y, right)?;
                    cols.recv(&mut from, left)?;
                    rows.all_reduce_in_place(&mut x, Sum)
                })?,
                _ => group(((&mut cols, &other), &mut rows), |(cols, rows)| {
                    rows.all_reduce_in_place(&mut x, Sum)?;
                    cols.send(&y, right)?;
                    cols.recv(&mut from, left)
                })?,
            }
            assert_eq!(x.to_vec()?, vec![total; 100_000]);
            assert_eq!(from.to_vec()?, [((rank + 1) % ranks) as u32; 77]);
        }
        rows.finish()?;
        cols.finish()?;
        world.finish()
    })
    .map(drop)
}

/// A refusal by one communicator is reported to the ranks of the other one too.
pub(crate) fn what_one_refuses_all_refuse() -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut world = connect(place, 20)?;
        let (rank, device) = (world.rank().index(), world.device().clone());
        let mut pair = world.split::<Pair>(0, 0)?;
        let (x, mut y) = (device.zeros::<u32>(8)?, device.zeros::<u32>(8)?);
        let mut z = device.zeros::<u32>(16)?;
        let outcome = group((&mut world, &mut pair), |(world, pair)| {
            world.all_reduce_in_place(&mut y, Sum)?;
            pair.all_gather(&x, z.slice_mut(0..16 - usize::from(rank == 0)))
        });
        let refused = "all_gather: the receive buffer holds 15 u32";
        if rank == 0 {
            says(&outcome.expect_err("too short"), &[refused]);
            // The other rank ends it after it has seen why.
            let _ = world.barrier();
        } else {
            let error = outcome.and_then(|()| world.sync(world.stream())).expect_err("refused");
            says(&error, &["rank 0 refused", refused]);
        }
        world.abort();
        pair.abort();
        Ok(())
    })
    .map(drop)
}

/// NCCL estimates a group without running it; afterwards the collectives work as before.
pub(crate) fn estimates() -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 20)?;
        let device = comm.device().clone();
        let mut times = Vec::new();
        for len in [1 << 10, busy(1 << 26, 1 << 12)] {
            let mut x = device.from_slice(&vec![1_u32; len])?;
            times.push(comm.estimate(|g| g.all_reduce_in_place(&mut x, Sum))?);
            assert_eq!(x.to_vec()?, vec![1; len]);
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert_eq!(x.to_vec()?, vec![2; len]);
        }
        println!("estimated: {times:?}");
        assert!(times.iter().all(|time| !time.is_zero()), "{times:?}");
        comm.finish()
    })
    .map(drop)
}
