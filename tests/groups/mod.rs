//! Transfers and groups.

mod rooted;
mod several;

use std::thread;

use typed_nccl::{
    Buffer, CallConfig, CommConfig, Communicator, Error, Group, Host, Rank, Result, Root, Seat,
    Signals, Sum, World, group, try_group,
};

use crate::ranks::spmd;

pub(crate) fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// A helper that records into its caller's group.
fn exchange<'e, W: World>(
    g: &mut Group<'e, W>,
    mine: &'e Buffer<f32, W::Device>,
    theirs: &'e mut Buffer<f32, W::Device>,
    peers: (Rank, Rank),
) -> Result<()> {
    g.send(mine, peers.0)?;
    g.recv(theirs, peers.1)
}

/// `(rank + 1) % size`, as in MPI; and an open chain.
#[test]
fn neighbours_by_arithmetic() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (rank, size) = (comm.rank(), comm.size());
        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
        assert_eq!((right, left), (comm.ring(1), comm.ring(-1)));
        let mine = comm.device().from_slice(&[rank.index() as i32; 4])?;
        let mut theirs = comm.device().from_slice(&[-1_i32; 4])?;
        comm.group(|g| {
            g.send(&mine, right)?;
            g.recv(&mut theirs, left)
        })?;
        assert_eq!(theirs.to_vec()?, [left.index() as i32; 4]);
        comm.group(|g| {
            if rank + 1 < size {
                g.send(&mine, rank + 1)?;
            }
            if rank > 0 {
                g.recv(&mut theirs, rank - 1)?;
            }
            Ok(())
        })?;
        let expected = if rank == 0 { left.index() } else { rank.index() - 1 };
        assert_eq!(theirs.to_vec()?, [expected as i32; 4]);
        // Before rank 0 there is none, and the remainder does not make one.
        let none = comm.peer(0)? - 1;
        for none in [none, none % size, (none + 1) % size] {
            let error = comm.send(&mine, none).expect_err("there is no such rank");
            assert!(matches!(error, Error::NoSuchRank(_)), "{error}");
            assert!(error.to_string().contains("no rank below 0 or past the last in"), "{error}");
        }
        let error = comm.send(&mine, rank + size).expect_err("there is no such rank");
        let text = format!("no rank {} in a communicator of 3", rank.index() + 3);
        assert!(error.to_string().contains(&text), "{error}");
        comm.finish()
    })
}

#[test]
fn a_ring_in_one_group_and_alone_in_turns() -> Result<()> {
    for ranks in [1, 2, 5, 8] {
        spmd::<Host>(ranks, |place| {
            let mut comm = place.init()?;
            let (left, right, rank) = (comm.ring(-1), comm.ring(1), comm.rank().index());
            let mine = comm.device().from_slice(&[rank as f32; 100])?;
            let mut theirs = comm.device().zeros(100)?;
            let stream = comm.device().stream()?;
            for _ in 0..10 {
                theirs.copy_from(&[-1.0; 100])?;
                comm.group(|g| exchange(g, &mine, &mut theirs, (right, left)))?;
                assert_eq!(theirs.to_vec()?, [left.index() as f32; 100]);
            }
            comm.group_on(&stream, |g| exchange(g, &mine, &mut theirs, (left, right)))?;
            assert_eq!(theirs.to_vec()?, [right.index() as f32; 100]);
            // Without a group, in alternation.
            if ranks > 1 {
                match rank {
                    0 => comm.send(&mine, 1)?,
                    1 => comm.recv(&mut theirs, 0)?,
                    _ => {}
                }
                if rank == 1 {
                    assert_eq!(theirs.to_vec()?, [0.0; 100]);
                }
            }
            comm.finish()
        })?;
    }
    Ok(())
}

#[test]
fn transfers_of_a_pair_are_first_in_first_out() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let peer = comm.ring(1);
        let device = comm.device();
        let mine = (0..4).map(|i| device.from_slice(&[i; 8])).collect::<Result<Vec<_>>>()?;
        let mut theirs = (0..4).map(|_| device.zeros::<i32>(8)).collect::<Result<Vec<_>>>()?;
        comm.group(|g| {
            for x in &mine {
                g.send(x, peer)?;
            }
            theirs.iter_mut().try_for_each(|y| g.recv(y, peer))
        })?;
        for (i, y) in theirs.iter().enumerate() {
            assert_eq!(y.to_vec()?, [i as i32; 8]);
        }
        comm.finish()
    })
}

#[test]
fn collectives_transfers_and_puts_in_one_group() -> Result<()> {
    spmd::<Host>(4, |place| {
        let mut comm = place.init()?;
        let (left, right, rank) = (comm.ring(-1), comm.ring(1), comm.rank().index() as u64);
        let (edge, ghost) = (comm.window::<u64>(4)?, comm.window::<u64>(4)?);
        let mut edge = edge;
        edge.copy_from(&[rank; 4])?;
        let device = comm.device();
        let (mine, mut theirs) = (device.from_slice(&[rank; 16])?, device.zeros::<u64>(16)?);
        let mut sum = device.from_slice(&[rank; 1000])?;
        let mut all = device.zeros::<u64>(64)?;
        for _ in 0..5 {
            sum.copy_from(&[rank; 1000])?;
            comm.group(|g| {
                g.send(&mine, right)?;
                g.all_reduce_in_place(&mut sum, Sum)?;
                g.recv(&mut theirs, left)?;
                g.all_gather(&mine, &mut all)?;
                g.put_signal(edge.slice(1..3), right, ghost.at(2))
            })?;
            comm.wait_signal(left)?;
            assert_eq!(ghost.to_vec()?, [0, 0, left.index() as u64, left.index() as u64]);
            assert_eq!(sum.to_vec()?, [6; 1000]);
            assert_eq!(theirs.to_vec()?, [left.index() as u64; 16]);
            assert_eq!(all.to_vec()?[48..], [3; 16]);
            comm.barrier()?;
        }
        comm.finish()
    })
}

#[test]
fn a_group_that_fails_issues_nothing_and_the_others_are_told() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (peer, rank) = (comm.ring(1), comm.rank().index());
        let mine = comm.device().from_slice(&[rank as f32; 8])?;
        let (mut theirs, mut sum) = (comm.device().zeros(8)?, comm.device().zeros::<f32>(4)?);
        let outcome = comm.group(|g| {
            g.send(&mine, peer)?;
            g.recv(&mut theirs, peer)?;
            match rank {
                0 => g.all_gather(mine.slice(0..8), sum.slice_mut(0..4)),
                _ => g.all_reduce_in_place(&mut sum, Sum),
            }
        });
        if rank == 0 {
            let error = outcome.expect_err("refused");
            says(&error, &["all_gather", "holds 4 f32", "2 ranks x 8"]);
            comm.health()?;
            assert_eq!(theirs.to_vec()?, [0.0; 8], "nothing was received");
        } else {
            outcome?;
            let error = comm.sync(comm.stream()).expect_err("told");
            assert!(matches!(&error, Error::Refused(told) if told.by.index() == 0), "{error}");
            says(&error, &["rank 0 refused its part", "all_gather"]);
        }
        comm.barrier()?;
        comm.group(|g| exchange(g, &mine, &mut theirs, (peer, peer)))?;
        assert_eq!(theirs.to_vec()?, [peer.index() as f32; 8]);
        comm.finish()
    })
}

/// One rank returns before it has recorded what the others record: transfers must not pair off by
/// one.
#[test]
fn a_closure_that_returns_an_error_ends_the_communicator() -> Result<()> {
    typed_nccl::spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        comm.barrier()?;
        let rank = comm.rank().index();
        let mut first = comm.device().zeros::<f32>(4)?;
        let mut second = comm.device().zeros::<f32>(4)?;
        let outcome = comm.group(|g| {
            g.all_reduce_in_place(&mut first, Sum)?;
            if rank == 0 {
                return Err(own_error());
            }
            g.all_reduce_in_place(&mut second, Sum)
        });
        if rank == 0 {
            says(&outcome.expect_err("the closure's own"), &["TYPED_NCCL is `nonsense`"]);
            assert!(matches!(comm.health(), Err(Error::Abort(_))));
            assert!(comm.all_reduce_in_place(&mut first, Sum).is_err());
        } else {
            let error = outcome.and_then(|()| comm.sync(comm.stream())).expect_err("told");
            says(&error, &["the closure of a group returned an error"]);
            assert!(matches!(error, Error::PeerFailed(_)), "{error}");
        }
        Ok(())
    })
}

/// The program's own error, from a closure of `try_group`.
#[derive(Debug)]
enum Stop {
    Ours(Error),
    NoPeer,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

/// An error of the program's own comes back as it was, and ends the communicator as one of ours
/// does: the other rank is told, whether it waits already or calls later.
#[test]
fn a_closure_may_return_an_error_of_the_programs_own() -> Result<()> {
    for late in [false, true] {
        typed_nccl::spmd::<Host>(2, |place| {
            let mut comm = place.init()?;
            let (rank, peer) = (comm.rank().index(), comm.ring(1));
            let stream = comm.device().stream()?;
            let (x, mut y) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
            let passed = try_group((&mut comm, &stream), |g| -> Result<(), Stop> {
                g.send(&x, peer)?;
                g.recv(&mut y, peer)?;
                Ok(())
            });
            assert!(passed.is_ok(), "{passed:?}");
            comm.barrier()?;
            if rank == 0 {
                let stopped = try_group(&mut comm, |g| {
                    g.send(&x, peer)?;
                    Err::<(), _>(Stop::NoPeer)
                });
                assert!(matches!(stopped, Err(Stop::NoPeer)), "{stopped:?}");
                assert!(matches!(comm.health(), Err(Error::Abort(_))));
                let after = try_group(&mut comm, |g| Ok::<_, Stop>(g.send(&x, peer)?));
                assert!(matches!(after, Err(Stop::Ours(Error::Abort(_)))), "{after:?}");
                return Ok(());
            }
            while late && comm.health().is_ok() {
                thread::yield_now();
            }
            let received = comm.recv(&mut y, peer);
            let error = received.and_then(|()| comm.sync(comm.stream())).expect_err("told");
            says(&error, &["the closure of a group returned an error"]);
            Ok(())
        })?;
    }
    Ok(())
}

fn own_error() -> Error {
    Error::SizeVariable(Box::new(typed_nccl::error::SizeVariable { found: "nonsense".into() }))
}

#[test]
fn transfers_that_differ_are_reported_on_both_ends() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let device = comm.device();
        let mut x = device.zeros::<f32>(256)?;
        match comm.rank().index() {
            0 => comm.send(&x, 1)?,
            1 => comm.recv(&mut x.slice_mut(0..100), 0)?,
            _ => {}
        }
        if comm.rank().index() < 2 {
            let error = comm.sync(comm.stream()).expect_err("the counts differ");
            says(&error, &["transfer #0 from rank 0 to rank 1 on World differs"]);
            says(&error, &["rank 0 called send of 256 f32 to 1, at tests/groups/mod.rs:"]);
            says(&error, &["rank 1 called recv of 100 f32 from 0, at"]);
        }
        let mut y = device.zeros::<i32>(256)?;
        match comm.rank().index() {
            1 => comm.send(&x, 2)?,
            2 => comm.recv(&mut y, 1)?,
            _ => {}
        }
        if comm.rank().index() > 0 {
            assert!(matches!(comm.sync(comm.stream()), Err(Error::Mismatch(_))));
        }
        comm.barrier()?;
        // The other end of a refused half gets an error.
        match comm.rank().index() {
            0 => assert!(comm.send(&x.slice(0..300), 2).is_err()),
            2 => {
                comm.recv(&mut x, 0)?;
                assert!(matches!(x.to_vec(), Err(Error::Refused(told)) if told.by.index() == 0));
            }
            _ => {}
        }
        assert!(matches!(comm.send(&x, 3), Err(Error::NoSuchRank(_))));
        comm.finish()
    })
}

#[test]
fn a_transfer_with_oneself_takes_a_group() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let me = comm.rank();
        let (x, mut y) = (comm.device().from_slice(&[7_u8; 5])?, comm.device().zeros::<u8>(5)?);
        let error = comm.send(&x, me).expect_err("nobody receives");
        says(&error, &["sends [5] elements to itself and receives [] from itself"]);
        says(&error, &["belong into one group"]);
        assert!(matches!(comm.recv(&mut y, me), Err(Error::SelfTransfer(_))));
        let error = comm.group(|g| {
            g.send(x.slice(0..3), me)?;
            g.recv(&mut y, me)
        });
        says(&error.expect_err("the lengths differ"), &["sends [3]", "receives [5]"]);
        comm.group(|g| {
            g.send(&x, me)?;
            g.recv(&mut y, me)
        })?;
        assert_eq!(y.to_vec()?, [7; 5]);
        comm.finish()
    })
}

#[test]
fn a_rank_that_left_is_named_to_those_who_wait_for_its_transfer_or_signal() -> Result<()> {
    for what in ["recv", "send", "wait_signal"] {
        let outcome = Host::spmd(2, |place| -> Result<String> {
            let mut comm = place.init()?;
            let mut x = comm.device().zeros::<f32>(1 << 16)?;
            let window = comm.window::<f32>(4)?;
            if comm.rank().index() == 1 {
                drop(window);
                comm.abort_because("gave up");
                return Ok(String::new());
            }
            let enqueued = match what {
                "recv" => comm.recv(&mut x, 1),
                "send" => comm.send(&x, 1),
                _ => comm.wait_signal(1),
            };
            let error = enqueued.and_then(|()| comm.sync(comm.stream()));
            Ok(error.expect_err("nobody there").to_string())
        })?;
        assert!(outcome[0].contains("rank 1 left: it was aborted"), "{}", outcome[0]);
    }
    Ok(())
}

/// The error names the method that was called and what the ranks passed to it.
#[test]
fn splits_and_blocks_that_differ_between_ranks() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let first = comm.rank().index() == 0;
        let splits = comm.splits(if first { &[0, 7] } else { &[5, 0] })?;
        let (sends, receives) = (splits.send_len(), splits.recv_len());
        let send = comm.device().zeros::<f32>(sends)?;
        let mut recv = comm.device().zeros::<f32>(receives)?;
        let called = match first {
            true => comm.all_to_all_v(&send, &mut recv, &splits),
            false => {
                let (mut to, from) = (comm.device().zeros::<f32>(sends)?, recv.slice(..));
                comm.all_to_all_v(from, &mut to, &splits.transposed())
            }
        };
        let error = called.and_then(|()| comm.sync(comm.stream())).expect_err("they differ");
        // Both directions differ.
        says(&error, &["called all_to_all_v (send of 7 f32 to ", "at tests/groups/mod.rs:"]);
        says(&error, &["called all_to_all_v (recv of 5 f32 from "]);
        says(&error, &["the splits that the ranks pass must agree"]);
        assert!(!error.to_string().contains("a rank's sends"), "{error}");
        comm.barrier()?;
        let _ = comm.sync(comm.stream());

        // Rank 1 scales them.
        let blocks = comm.blocks(3)?;
        let (blocks, by) = if first { (blocks, 1) } else { (blocks.scaled(2)?, 2) };
        let mut all = comm.device().zeros::<u32>(6 * by)?;
        let called = comm.all_gather_v_in_place(&mut all, &blocks);
        let error = called.and_then(|()| comm.sync(comm.stream())).expect_err("they differ");
        says(&error, &["all_gather_v_in_place (", "the blocks that the ranks pass must agree"]);
        comm.barrier()?;
        let _ = comm.sync(comm.stream());
        let mut own = comm.device().zeros::<u32>(3 * by)?;
        let called = comm.reduce_scatter_v(&all, &mut own, Sum, &blocks);
        let error = called.and_then(|()| comm.sync(comm.stream())).expect_err("they differ");
        says(
            &error,
            &["reduce_scatter_v (reduce of ", "the blocks that the ranks pass must agree"],
        );
        comm.barrier()?;
        let _ = comm.sync(comm.stream());
        comm.finish()
    })
}

/// A buffer that fits the way back, or rows of several elements: the error says so.
#[test]
fn lengths_that_fit_other_splits() -> Result<()> {
    spmd::<Host>(1, |place| {
        let comm = place.init()?;
        let (splits, blocks) = (comm.splits(&[2])?, comm.blocks(2)?);
        let (x, mut y) = (comm.device().zeros::<u8>(10)?, comm.device().zeros::<u8>(2)?);
        let error = comm.all_to_all_v(&x, &mut y, &splits).expect_err("5 times as long");
        let rows = "for rows of 5 elements pass `splits.scaled(5)?`; otherwise take 2 elements";
        says(&error, &[rows]);
        let error = comm.all_gather_v(&x, &mut y, &blocks).expect_err("5 times as long");
        says(&error, &["for rows of 5 elements pass `blocks.scaled(5)?`"]);
        let error = comm.all_gather_v(x.slice(..9), &mut y, &blocks).expect_err("no multiple");
        says(&error, &["need 2 (at tests/groups/mod.rs", "); take 2 elements"]);
        comm.finish()
    })?;
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let splits = comm.splits(if comm.rank().index() == 0 { &[0, 7] } else { &[5, 0] })?;
        let back = comm.device().zeros::<u8>(splits.recv_len())?;
        let mut home = comm.device().zeros::<u8>(splits.send_len())?;
        let error = comm.all_to_all_v(&back, &mut home, &splits).expect_err("the way back");
        says(&error, &["for the way back pass `splits.transposed()`; otherwise take"]);
        assert!(error.is_refusal() && !error.to_string().contains("scaled"), "{error}");
        comm.barrier()?;
        let _ = comm.sync(comm.stream());
        comm.all_to_all_v(&back, &mut home, &splits.transposed())?;
        comm.sync(comm.stream())?;
        comm.finish()
    })
}

#[test]
fn uneven_collectives() -> Result<()> {
    for ranks in [1, 2, 4, 7] {
        spmd::<Host>(ranks, |place| {
            let mut comm = place.init()?;
            let rank = comm.rank().index();
            // Rank r sends r + 2 s + 1 elements to rank s: all different.
            let counts: Vec<usize> = (0..ranks).map(|s| rank + 2 * s + 1).collect();
            let splits = comm.splits(&counts)?;
            let send: Vec<u32> =
                (0..ranks).flat_map(|s| vec![(rank * 100 + s) as u32; counts[s]]).collect();
            let expected: Vec<u32> =
                (0..ranks).flat_map(|r| vec![(r * 100 + rank) as u32; r + 2 * rank + 1]).collect();
            let send = comm.device().from_slice(&send)?;
            let mut recv = comm.device().zeros::<u32>(splits.recv_len())?;
            comm.all_to_all_v(&send, &mut recv, &splits)?;
            assert_eq!(recv.to_vec()?, expected);
            // The way back, of pairs of elements, on another stream.
            let back = splits.transposed();
            assert_eq!((back.send_len(), back.recv_len()), (splits.recv_len(), splits.send_len()));
            assert_eq!(back.sends_to(0), splits.recvs_from(0));
            let pairs: Vec<u32> = expected.iter().flat_map(|&value| [value, value]).collect();
            let pairs = comm.device().from_slice(&pairs)?;
            let mut home = comm.device().zeros::<u32>(2 * splits.send_len())?;
            let stream = comm.device().stream()?;
            comm.on(&stream).all_to_all_v(&pairs, &mut home, &back.scaled(2)?)?;
            let sent: Vec<u32> = send.to_vec()?.into_iter().flat_map(|v| [v, v]).collect();
            assert_eq!(home.to_vec()?, sent);
            if ranks > 1 {
                // A length other than the declared one: refused, and the others get an error.
                let outcome = match rank {
                    1 => comm.all_to_all_v(&send, recv.slice_mut(0..1), &splits),
                    _ => comm.all_to_all_v(&send, &mut recv, &splits),
                };
                let error = outcome.and_then(|()| comm.sync(comm.stream())).expect_err("too short");
                says(&error, &["all_to_all_v", "holds 1 u32", "the declared lengths need"]);
                comm.barrier()?;
            }

            // Blocks of r elements: rank 0's is empty.
            let blocks = comm.blocks(rank)?;
            let total = ranks * (ranks - 1) / 2;
            let own = comm.device().from_slice(&vec![rank as u32; rank])?;
            let mut all = comm.device().zeros::<u32>(total)?;
            comm.all_gather_v(&own, &mut all, &blocks)?;
            let expected: Vec<u32> = (0..ranks).flat_map(|r| vec![r as u32; r]).collect();
            assert_eq!(all.to_vec()?, expected);
            let mut back = comm.device().zeros::<u32>(rank)?;
            comm.reduce_scatter_v(&all, &mut back, Sum, &blocks)?;
            assert_eq!(back.to_vec()?, vec![(rank * ranks) as u32; rank]);

            // The same in one buffer, on another stream and in one group with others.
            let own = blocks.range_at(comm.rank());
            assert_eq!((blocks.total(), blocks.len_at(comm.rank())), (total, own.len()));
            let mut one = comm.device().zeros::<u32>(total)?;
            one.slice_mut(own.clone()).copy_from(&vec![rank as u32; rank])?;
            comm.on(&stream).all_gather_v_in_place(&mut one, &blocks)?;
            assert_eq!(one.to_vec()?, expected);
            comm.on(&stream).reduce_scatter_v_in_place(&mut one, Sum, &blocks)?;
            assert_eq!(one.to_vec()?[own.clone()], vec![(rank * ranks) as u32; rank]);
            one.copy_from(&vec![7; total])?;
            let mut other = comm.device().zeros::<u32>(total)?;
            comm.group(|g| {
                g.all_gather_v(back.slice(0..rank), &mut other, &blocks)?;
                g.reduce_scatter_v_in_place(&mut one, Sum, &blocks)
            })?;
            assert_eq!(one.to_vec()?[own], vec![7 * ranks as u32; rank]);
            let expected: Vec<u32> = expected.iter().map(|value| value * ranks as u32).collect();
            assert_eq!(other.to_vec()?, expected);
            comm.finish()
        })?;
    }
    Ok(())
}

/// An operation made of several is refused as several: the others' groups complete.
#[test]
fn an_uneven_collective_that_is_refused_in_a_group() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let rank = comm.rank().index();
        let blocks = comm.blocks(rank + 1)?;
        let mut all = comm.device().zeros::<i64>(blocks.total())?;
        let mut sum = comm.device().from_slice(&[1_i64; 5])?;
        for in_group in [false, true] {
            for reduces in [false, true] {
                let len = blocks.total() - usize::from(rank == 1);
                let mut buf = all.slice_mut(0..len);
                let outcome = match (in_group, reduces) {
                    (false, false) => comm.all_gather_v_in_place(&mut buf, &blocks),
                    (false, true) => comm.reduce_scatter_v_in_place(&mut buf, Sum, &blocks),
                    (true, _) => comm.group(|g| {
                        g.all_reduce_in_place(&mut sum, Sum)?;
                        match reduces {
                            true => g.reduce_scatter_v_in_place(buf, Sum, &blocks),
                            false => g.all_gather_v_in_place(buf, &blocks),
                        }
                    }),
                };
                let error = outcome.and_then(|()| comm.sync(comm.stream())).expect_err("too short");
                says(&error, &["_v_in_place: the one buffer holds 5 i64", "lengths need 6"]);
                comm.barrier()?;
            }
        }
        assert_eq!(sum.to_vec()?, [1; 5]);
        comm.all_gather_v_in_place(&mut all, &blocks)?;
        comm.sync(comm.stream())?;
        let error = blocks.scaled(usize::MAX / 4).expect_err("more than all memory");
        says(&error, &["scaled: rank", "would receive", "tests/groups/mod.rs"]);
        comm.finish()
    })
}

#[test]
fn rooted_collectives_and_slots_in_a_group() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init_with(CommConfig::builder().signals(2).build())?;
        let rank = comm.rank().index();
        let device = comm.device().clone();
        let whole = device.from_slice(&[10, 11, 12])?;
        let (mut one, mut block) = (device.zeros::<i32>(3)?, device.zeros::<i32>(1)?);
        let mine = device.from_slice(&[rank as i32])?;
        let mut all = (rank == 2).then(|| device.zeros::<i32>(3)).transpose()?;
        let _window = comm.window::<i32>(1)?;
        let (slot, right) = (comm.signal_in(0, 1)?, comm.ring(1));
        comm.group(|g| {
            let sends = |root| (rank == root).then_some(&whole);
            g.broadcast(Root::here_or_at(sends(1), 1), &mut one)?;
            g.scatter(Root::here_or_at(sends(0), 0), &mut block)?;
            g.gather_into(&mine, Root::here_or_at(all.as_mut(), 2))?;
            g.signal_slot(right, slot)
        })?;
        let mut arrival = Signals::new();
        comm.wait_signals(arrival.expect_in(comm.ring(-1), slot, 1))?;
        assert_eq!(one.to_vec()?, [10, 11, 12]);
        assert_eq!(block.to_vec()?, [10 + rank as i32]);
        if let Some(all) = all {
            assert_eq!(all.to_vec()?, [0, 1, 2]);
        }
        // Bad input results in the communicator's usual errors.
        let outcome = comm.group(|g| match rank {
            1 => g.scatter(Root::<&Buffer<i32, _>>::at(0), &mut one),
            _ => g.scatter(Root::here_or_at((rank == 0).then_some(&whole), 0), &mut block),
        });
        let error = outcome.and_then(|()| comm.sync(comm.stream())).expect_err("too long");
        says(&error, &["rank 1 called scatter of 3 i32, root 0"]);
        comm.finish()
    })
}

#[test]
fn splits_of_the_wrong_shape_are_refused_everywhere() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm: Communicator<_> = place.init()?;
        let counts = vec![1; if comm.rank().index() == 1 { 2 } else { 3 }];
        let error = comm.splits(&counts).expect_err("one count for each rank");
        assert!(error.is_refusal() && matches!(error, Error::BadSplits(_)), "{error}");
        says(
            &error,
            &["rank 1 gave 2 counts, and there are 3 ranks (at ", "a count for each rank"],
        );
        assert_eq!(comm.splits(&[1; 3])?.recv_len(), 3); // the communicator goes on
        comm.finish()
    })
}

/// The host has no times; its comparison is the one for GPUs.
#[test]
fn an_estimate_on_the_host() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let first = comm.rank().index() == 0;
        let mut x = comm.device().from_slice(&[1.0_f32; 8])?;
        let error = comm.estimate(|g| g.all_reduce_in_place(&mut x, Sum)).expect_err("no times");
        says(&error, &["an estimate of a group needs NCCL on GPUs", "the host backend"]);
        assert!(comm.estimate(|_| Ok(()))?.is_zero());
        let error = comm.estimate(|g| match first {
            true => g.all_reduce_in_place(&mut x, Sum),
            false => g.broadcast_in_place(&mut x, 0),
        });
        says(&error.expect_err("they differ"), &["estimate: rank", "all_reduce of 8 f32"]);
        let error = comm.estimate(|g| match first {
            true => g.all_gather_in_place(x.slice_mut(0..7)),
            false => g.all_gather_in_place(&mut x),
        });
        let error = error.expect_err("7 for two ranks");
        says(&error, &["all_gather: the one buffer holds 7 f32"]);
        assert_eq!(matches!(error, Error::ValueMismatch(_)), !first);
        let error = comm.estimate(|g| g.send(&x, 0)).expect_err("no collective");
        assert!(matches!(error, Error::Unsupported(_) | Error::SelfTransfer(_)), "{error}");
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [2.0; 8]);
        comm.finish()
    })
    .map(drop)
}

/// Calls with a configuration go to the communicator for which they were checked, also if they are
/// swapped for those of another group.
#[test]
fn configured_calls_of_another_group() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut both = place.init()?;
        let device = both.device().clone();
        let mut alone = Seat::local(1).remove(0).init(device.clone())?;
        let own = [both.rank().index() as f32; 3];
        let (x, mut y) = (device.from_slice(&own)?, device.zeros::<f32>(3)?);
        let config = CallConfig::builder().profiler_tag(7).build();
        group((&mut both, &mut alone), |(two, one)| {
            let (mut two, mut one) = (two.with(&config), one.with(&config));
            one.all_gather(&x, &mut y)?;
            std::mem::swap(&mut *two, &mut *one);
            assert_eq!((two.size(), one.size()), (1, 2));
            Ok(())
        })?;
        assert_eq!(y.to_vec()?, own);
        alone.finish()?;
        both.finish()
    })
}
