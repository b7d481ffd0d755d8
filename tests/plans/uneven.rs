//! Memory whose length depends on the rank.

use typed_nccl::error::ArgumentFault;
use typed_nccl::{Error, Host, plan};

use crate::ranks::spmd;

plan! {
    /// All ranks' parts of a list, the first ones with one more element where it does not divide.
    gathered<T: Element>(n: Ranks, len: usize) where len >= n {
        in part: [T; len / n + if rank < len % n { 1 } else { 0 }];
        out whole: [T; len];
        local kept[i in 0..2]: [T; len / n + if rank < len % n { 1 } else { 0 }];
        let least = len / n;
        let begin = rank * least + min(rank, len % n);
        let end = (rank + 1) * least + min(rank + 1, len % n);
        kept[1] = part;
        whole[begin..end] = kept[1];
        group {
            for by in 1..n {
                send part to (rank + by) % n into whole[begin..end];
            }
        }
        computes {
            for r in 0..n {
                whole[r * least + min(r, len % n)..(r + 1) * least + min(r + 1, len % n)] = part of r;
            }
        }
    }
}

plan! {
    /// The first rank's list in parts, as `gathered` has them.
    scattered<T: Element>(n: Ranks, len: usize) where len >= n {
        in whole: [T; if rank == 0 { len } else { 0 }];
        out part: [T; len / n + if rank < len % n { 1 } else { 0 }];
        let least = len / n;
        if rank == 0 {
            part = whole[..least + min(1, len % n)];
        }
        group {
            for to in 1..n {
                if rank == 0 {
                    send whole[to * least + min(to, len % n)..(to + 1) * least + min(to + 1, len % n)]
                        to rank(to) into part;
                }
            }
        }
    }
}

#[test]
fn each_rank_has_its_own_length() {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (rank, device) = (comm.rank().index(), comm.device().clone());
        let all: Vec<i32> = (0..11).collect();
        let own = [0..4, 4..8, 8..11][rank].clone();

        let mut scatter =
            scattered::bind::<i32, _>(&mut comm, scattered::Params { len: all.len() })?;
        let whole = device.from_slice(if rank == 0 { &all[..] } else { &[] })?;
        let mut part = device.zeros(own.len())?;
        scatter.run(&comm, scattered::Buffers { whole: &whole, part: &mut part })?;
        assert_eq!(part.to_vec()?, all[own]);

        let mut gather = gathered::bind::<i32, _>(&mut comm, gathered::Params { len: all.len() })?;
        for _ in 0..2 {
            let mut whole = device.zeros(all.len())?;
            gather.run(&comm, gathered::Buffers { part: &part, whole: &mut whole })?;
            assert_eq!(whole.to_vec()?, all);
        }
        assert!(gather.describe().contains("send part[0..3]"), "{}", gather.describe());
        comm.finish()
    })
    .expect("all parts arrive");
}

#[test]
fn the_length_of_another_rank_is_refused() {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (rank, device) = (comm.rank().index(), comm.device().clone());
        let mut gather = gathered::bind::<i32, _>(&mut comm, gathered::Params { len: 5 })?;
        // The second rank takes its part to be as long as the first one's.
        let (part, mut whole) = (device.zeros(3)?, device.zeros(5)?);
        let told = gather.run(&comm, gathered::Buffers { part: &part, whole: &mut whole });
        // The first rank is told when it waits.
        let told = told.and_then(|()| comm.sync(comm.stream()));
        match told {
            Err(Error::BadArgument(bad)) if rank == 1 => {
                assert_eq!(bad.why, ArgumentFault::Length { index: None, found: 3, needed: 2 });
            }
            Err(Error::Refused(_)) if rank == 0 => {}
            other => panic!("{other:?}"),
        }
        comm.barrier()?;
        comm.finish()
    })
    .expect("a refusal does no harm");
}
