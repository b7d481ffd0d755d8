//! Collectives with a root whose blocks differ in length.

use typed_nccl::{Buffer, Error, Host, Result, Root};

use crate::ranks::spmd;

use super::says;

#[test]
fn blocks_of_many_lengths_go_to_the_root_and_come_back() -> Result<()> {
    for ranks in [1, 2, 4] {
        spmd::<Host>(ranks, |place| {
            let mut comm = place.init()?;
            let rank = comm.rank().index();
            let stream = comm.device().stream()?;
            // Rank 0's block is empty.
            let blocks = comm.blocks(rank)?;
            let everything: Vec<i32> = (0..ranks).flat_map(|r| vec![r as i32; r]).collect();
            let own = blocks.range_at(comm.rank());
            let mine = comm.device().from_slice(&everything[own.clone()])?;
            for root in 0..ranks {
                let is_root = rank == root;
                let mut all = is_root.then(|| comm.device().zeros(blocks.total())).transpose()?;
                comm.gather_v(&mine, Root::here_or_at(all.as_mut(), root), &blocks)?;
                if let Some(all) = &all {
                    assert_eq!(all.to_vec()?, everything);
                }
                let mut back = comm.device().zeros::<i32>(rank)?;
                let there = comm.on(&stream);
                there.scatter_v(Root::here_or_at(all.as_ref(), root), &mut back, &blocks)?;
                assert_eq!(back.to_vec()?, everything[own.clone()]);

                // In one buffer: all blocks on the root, one elsewhere.
                let mut one = match is_root {
                    true => comm.device().zeros::<i32>(blocks.total())?,
                    false => comm.device().from_slice(&everything[own.clone()])?,
                };
                if is_root {
                    one.slice_mut(own.clone()).copy_from(&everything[own.clone()])?;
                }
                comm.gather_v_in_place(&mut one, &blocks, root)?;
                let expected = if is_root { &everything } else { &everything[own.clone()] };
                assert_eq!(one.to_vec()?, expected);
                if !is_root {
                    one.copy_from(&vec![-1; rank])?;
                }
                comm.on(&stream).scatter_v_in_place(&mut one, &blocks, root)?;
                assert_eq!(one.to_vec()?, expected);

                // Together, from and to different roots.
                let other = (root + 1) % ranks;
                let whole = (rank == other).then(|| comm.device().from_slice(&everything));
                let whole = whole.transpose()?;
                back.copy_from(&vec![-1; rank])?;
                comm.group(|g| {
                    g.gather_v(&mine, Root::here_or_at(all.as_mut(), root), &blocks)?;
                    g.scatter_v(Root::here_or_at(whole.as_ref(), other), &mut back, &blocks)
                })?;
                assert_eq!(back.to_vec()?, everything[own.clone()]);
            }
            comm.finish()
        })?;
    }
    Ok(())
}

/// A rank's mistake is reported to all ranks that have messages with it.
#[test]
fn a_rank_that_refuses_its_part_tells_those_whom_it_has_messages_with() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index();
        let blocks = comm.blocks(rank + 1)?;
        let device = comm.device();
        let mine = device.from_slice(&vec![rank as i32; rank + 1])?;
        let mut whole = device.zeros::<i32>(6)?;
        let after = |outcome: Result<()>| outcome.and_then(|()| comm.sync(comm.stream()));

        // The root, by its whole: every other rank has a message with it.
        let outcome = match rank {
            0 => comm.gather_v(&mine, Root::Here(whole.slice_mut(0..5)), &blocks),
            _ => comm.gather_v(&mine, Root::<&mut Buffer<i32, _>>::at(0), &blocks),
        };
        let error = after(outcome).expect_err("too short");
        says(&error, &["gather_v: the receive buffer holds 5 i32", "lengths need 6"]);
        comm.barrier()?;

        // A rank by its block: only the root gets an error.
        let mut two = device.zeros::<i32>(2)?;
        let mut block = device.zeros::<i32>(rank + 1)?;
        let outcome = match rank {
            0 => comm.scatter_v(Root::Here(&whole), &mut block, &blocks),
            1 => comm.scatter_v(Root::<&Buffer<i32, _>>::at(0), &mut block, &blocks),
            _ => comm.scatter_v(Root::<&Buffer<i32, _>>::at(0), &mut two, &blocks),
        };
        match (rank, after(outcome)) {
            (1, outcome) => outcome?,
            (_, outcome) => says(
                &outcome.expect_err("too short"),
                &["scatter_v: the receive buffer holds 2 i32", "lengths need 3"],
            ),
        }
        comm.barrier()?;

        // In one buffer, the root.
        let outcome = match rank {
            1 => comm.gather_v_in_place(&mut two, &blocks, 1),
            _ => comm.gather_v_in_place(&mut block, &blocks, 1),
        };
        let error = after(outcome).expect_err("too short");
        says(&error, &["gather_v_in_place: the one buffer holds 2 i32", "lengths need 6"]);
        comm.barrier()?;

        // The root passes no buffer; no rank is the root.
        let outcome = comm.scatter_v(Root::<&Buffer<i32, _>>::at(2), &mut block, &blocks);
        let error = after(outcome).expect_err("rank 2 has none");
        says(&error, &["scatter_v", "root"]);
        comm.barrier()?;
        let error = comm.scatter_v_in_place(&mut block, &blocks, 3).expect_err("of 3 ranks");
        assert!(matches!(&error, Error::NoSuchRank(_)), "{error}");
        says(&error, &["scatter_v_in_place", "3"]);

        // They are still in step.
        let mut all = (rank == 1).then_some(&mut whole);
        comm.gather_v(&mine, Root::here_or_at(all.take(), 1), &blocks)?;
        comm.sync(comm.stream())?;
        comm.finish()
    })
}
