//! Splits, meshes, children that own and children that share.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use typed_nccl::{
    CommConfig, Communicator, Device, Error, Host, Mesh, Rank, Result, Sum, Window, tag,
};

use crate::ranks::spmd;

tag!(TensorParallel, DataParallel, Expert);

/// MPI's rule: the ranks of one colour, by key, then by rank.
fn model(wishes: &[(Option<usize>, i64)], rank: usize) -> Option<(usize, Vec<usize>)> {
    let color = wishes[rank].0?;
    let mut ranks: Vec<usize> = (0..wishes.len()).filter(|&r| wishes[r].0 == Some(color)).collect();
    ranks.sort_by_key(|&r| (wishes[r].1, r));
    Some((ranks.iter().position(|&r| r == rank)?, ranks))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn splits_follow_mpis_rule_and_split_again(
        wishes in prop::collection::vec(
            (prop::option::weighted(0.8, 0..3_usize), -3..3_i64, 0..2_usize, -2..2_i64), 1..=8),
    ) {
        let (first, second): (Vec<_>, Vec<_>) =
            wishes.iter().map(|&(c, k, c2, k2)| ((c, k), (Some(c2), k2))).unzip();
        typed_nccl::spmd::<Host>(wishes.len(), |place| {
            let mut world = place.init()?;
            let rank = world.rank().index();
            let (color, key) = first[rank];
            let child = world.split_some::<Expert>(color, key)?;
            let expected = model(&first, rank);
            assert_eq!(child.is_some(), expected.is_some());
            if let (Some(mut child), Some((place, ranks))) = (child, expected) {
                assert_eq!((child.rank().index(), child.size()), (place, ranks.len()));
                let mut x = child.device().from_slice(&[1_u64 << rank])?;
                child.all_reduce_in_place(&mut x, Sum)?;
                assert_eq!(x.to_vec()?, [ranks.iter().map(|r| 1 << r).sum::<u64>()]);
                // The child splits again, by its own ranks.
                let wishes: Vec<_> = ranks.iter().map(|&r| second[r]).collect();
                let grandchild = child.split::<DataParallel>(second[rank].0.unwrap_or(0), second[rank].1)?;
                let (place, ranks) = model(&wishes, place).expect("everybody has a colour");
                assert_eq!((grandchild.rank().index(), grandchild.size()), (place, ranks.len()));
                // In any order, as children own their resources.
                child.finish()?;
                grandchild.barrier()?;
                grandchild.finish()?;
            }
            world.finish()
        }).expect("no error");
    }
}

#[test]
fn colours_and_keys_are_of_the_types_that_programs_have() -> Result<()> {
    spmd::<Host>(4, |place| {
        let mut world = place.init()?;
        let (rank, index) = (world.rank(), world.rank().index());
        let expect = |child: Result<Communicator<Expert<Host<_>>>>, at: usize| {
            let child = child?;
            assert_eq!((child.rank().index(), child.size()), (at, 2));
            child.finish()
        };
        expect(world.split::<Expert>(index / 2, rank), index % 2)?;
        expect(world.split::<Expert>(rank % 2, -(index as i64)), 1 - index / 2)?;
        expect(
            world.split::<Expert>(u64::MAX - index as u64 / 2, u64::MAX - index as u64),
            1 - index % 2,
        )?;
        expect(world.split_with::<Expert>((index % 2) as u8, 0, CommConfig::default()), index / 2)?;
        let shared = world.split_shared::<Expert>(rank % 2, isize::MIN)?;
        assert_eq!((shared.rank().index(), shared.size()), (index / 2, 2));
        shared.finish()?;
        let some = world.split_some::<Expert>((index > 0).then_some(index % 2), rank)?;
        assert_eq!(some.as_ref().map(|some| some.size()), [None, Some(2), Some(1), Some(2)][index]);
        some.map_or(Ok(()), Communicator::finish)?;
        world.finish()
    })
}

/// C's colours below 0 leave a rank out; here they are refused, and the other ranks are told.
#[test]
fn a_colour_below_0_is_refused_on_every_rank() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut world = place.init()?;
        let wrong = world.rank() == 1;
        for shared in [false, true] {
            let color = if wrong { -1 } else { 0 };
            let error = match shared {
                false => world.split::<Expert>(color, 0).map(drop),
                true => world.split_shared::<Expert>(color, 0).map(drop),
            };
            let error = error.expect_err("rank 1 gives a colour below 0");
            match (&error, wrong) {
                (Error::BadColor(bad), true) => assert_eq!(bad.found, -1),
                (error, false)
                    if error.to_string().contains("rank 1 called a split that was refused") => {}
                _ => panic!("{error}"),
            }
            assert!(
                !wrong || error.to_string().contains("`split_some::<L>(None, key)`"),
                "{error}"
            );
        }
        world.barrier()?;
        world.finish()
    })
}

#[test]
fn groups_by_lists_in_their_order() -> Result<()> {
    spmd::<Host>(6, |place| {
        let mut world = place.init()?;
        let groups = [vec![5, 1], vec![0, 2, 4]];
        let child = world.split_into::<Expert>(&groups)?;
        let found = child.as_ref().map(|c| (c.rank().index(), c.size()));
        let expected = [Some((0, 3)), Some((1, 2)), Some((1, 3)), None, Some((2, 3)), Some((0, 2))];
        assert_eq!(found, expected[world.rank().index()]);
        if let Some(child) = child {
            child.finish()?;
        }
        for (bad, says) in
            [(vec![vec![1, 1]], "rank 1 stands in the lists twice"), (vec![vec![9]], "no rank 9")]
        {
            let error = world.split_into::<Expert>(&bad).expect_err("refused");
            assert!(
                matches!(error, Error::BadGroups(_)) && error.to_string().contains(says),
                "{error}"
            );
        }
        // A bad list on one rank is reported to the others.
        let lists = if world.rank().index() == 2 { vec![vec![7]] } else { vec![vec![0]] };
        let error = world.split_into::<Expert>(&lists).expect_err("rank 2 refuses");
        assert!(error.to_string().contains(if world.rank().index() == 2 {
            "no rank 7"
        } else {
            "refused"
        }));
        world.finish()
    })
}

struct Layer<D: Device> {
    world: Communicator<D>,
    tp: Communicator<TensorParallel<D>>,
    dp: Communicator<DataParallel<D>>,
    acts: Window<f32, TensorParallel<D>>,
    grads: Window<f32, DataParallel<D>>,
}

impl<D: Device> Layer<D> {
    fn new(mut world: Communicator<D>, dp_size: usize, tp_size: usize) -> Result<Self> {
        let Mesh { along_rows: mut dp, along_cols: mut tp } =
            world.mesh::<DataParallel, TensorParallel>(dp_size, tp_size)?;
        let (acts, grads) = (tp.window(16)?, dp.window(64)?);
        Ok(Self { world, tp, dp, acts, grads })
    }
}

#[test]
fn a_mesh_of_two_by_four_with_windows_on_each() -> Result<()> {
    spmd::<Host>(8, |place| {
        let mut layer = Layer::new(place.init()?, 2, 4)?;
        let rank = layer.world.rank().index();
        assert_eq!((layer.tp.rank().index(), layer.tp.size()), (rank % 4, 4));
        assert_eq!((layer.dp.rank().index(), layer.dp.size()), (rank / 4, 2));
        layer.acts.copy_from(&[rank as f32; 16])?;
        layer.grads.copy_from(&[rank as f32; 64])?;
        layer.tp.all_reduce_in_place(&mut layer.acts, Sum)?;
        layer.dp.all_reduce_in_place(&mut layer.grads, Sum)?;
        assert_eq!(layer.acts.to_vec()?[0], (rank / 4 * 16 + 6) as f32);
        assert_eq!(layer.grads.to_vec()?[0], (rank % 4 * 2 + 4) as f32);
        let error = layer.world.mesh::<DataParallel, TensorParallel>(3, 4).expect_err("12 of 8");
        assert!(error.to_string().contains("a mesh of 3 x 4 does not have 8 ranks"), "{error}");
        layer.tp.finish()?;
        layer.dp.finish()?;
        layer.world.finish()
    })
}

#[test]
fn two_names_on_two_streams_in_one_order_never_deadlock() -> Result<()> {
    spmd::<Host>(4, |place| {
        let mut world = place.init()?;
        let Mesh { along_rows: a, along_cols: b } =
            world.mesh::<DataParallel, TensorParallel>(4, 1)?;
        drop(b);
        let c = world.split::<TensorParallel>(0, -(world.rank().index() as i64))?;
        let streams = [world.device().stream()?, world.device().stream()?];
        let mut x = world.device().from_slice(&[1.0_f64; 64])?;
        let mut y = world.device().from_slice(&[1.0_f64; 64])?;
        for _ in 0..100 {
            a.on(&streams[0]).all_reduce_in_place(&mut x, typed_nccl::Max)?;
            c.on(&streams[1]).all_reduce_in_place(&mut y, typed_nccl::Max)?;
            // Across: each stream waits for the other's buffer.
            a.on(&streams[0]).all_reduce_in_place(&mut y, typed_nccl::Max)?;
            c.on(&streams[1]).all_reduce_in_place(&mut x, typed_nccl::Max)?;
        }
        assert_eq!((x.to_vec()?[63], y.to_vec()?[63]), (1.0, 1.0));
        a.finish()?;
        c.finish()?;
        world.finish()
    })
}

#[test]
fn two_names_in_different_orders_are_told_so() {
    let errors = Host::spmd(2, |place| -> Result<Error> {
        let mut world = place.init()?;
        let a = world.split::<DataParallel>(0, 0)?;
        let b = world.split::<TensorParallel>(0, 0)?;
        let stream = world.device().stream()?;
        let mut x = world.device().from_slice(&[1.0_f64; 4])?;
        // On one stream: each rank waits in one communicator for work that the other rank has
        // queued after its wait in the other communicator.
        if world.rank().index() == 0 {
            a.on(&stream).all_reduce_in_place(&mut x, Sum)?;
            b.on(&stream).all_reduce_in_place(&mut x, Sum)?;
        } else {
            b.on(&stream).all_reduce_in_place(&mut x, Sum)?;
            a.on(&stream).all_reduce_in_place(&mut x, Sum)?;
        }
        Ok(x.to_vec().expect_err("a cycle"))
    });
    let errors = errors.expect("both ranks return their error");
    for error in &errors {
        assert!(matches!(error, Error::Deadlock(_)), "{error}");
        assert!(error.to_string().contains("use the communicators in one order on all ranks"));
    }
}

#[test]
fn a_shared_child_shares_its_parents_fate() -> Result<()> {
    let errors = Host::spmd(3, |place| -> Result<String> {
        let mut world = place.init()?;
        let child = world.split_shared::<Expert>(0, 0)?;
        let mut x = child.device().from_slice(&[child.rank().index() as i32])?;
        child.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [3]);
        child.barrier()?;
        if child.rank() == Rank::from_index(1) {
            drop(child.abort_because("the child goes"));
        } else {
            let error = child.barrier().expect_err("rank 1 is gone");
            assert!(error.is_peer_failure(), "{error}");
            drop(child);
        }
        // The parent ended with it, on every rank.
        let error = loop {
            match world.health() {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        Ok(error.to_string())
    })?;
    assert!(errors.iter().all(|text| text.contains("the child goes")), "{errors:?}");
    // An owned child ends alone.
    spmd::<Host>(2, |place| {
        let mut world = place.init()?;
        let child = world.split::<Expert>(0, 0)?;
        world.barrier()?;
        drop(child.abort());
        world.health()?;
        world.finish()
    })
}

/// Its owner waits in the child.
#[test]
fn an_abort_handle_of_a_parent_ends_a_wait_in_its_shared_child() -> Result<()> {
    let errors = Host::spmd(2, |place| -> Result<Error> {
        let mut world = place.init()?;
        let handle = world.abort_handle();
        let child = world.split_shared::<Expert>(0, 0)?;
        if child.rank().index() == 1 {
            return Ok(loop {
                match child.health() {
                    Ok(_) => std::thread::yield_now(),
                    Err(error) => break error,
                }
            });
        }
        let asks = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            handle.abort("enough")
        });
        let error = child.barrier().expect_err("rank 1 does not come");
        assert!(matches!(error, Error::Abort(_)), "{error}");
        assert!(asks.join().expect("no panic"), "the request was the first");
        Ok(error)
    })?;
    assert!(errors.iter().all(|error| error.to_string().contains("enough")), "{errors:?}");
    Ok(())
}

/// As above, but the parent continues.
#[test]
fn an_abort_handle_of_a_parent_revokes_it_while_its_owner_waits_in_a_shared_child() -> Result<()> {
    Host::spmd(2, |place| -> Result<()> {
        let mut world = place.init()?;
        let handle = world.abort_handle();
        let child = world.split_shared::<Expert>(0, 0)?;
        let error = if child.rank().index() == 0 {
            let asks = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                handle.revoke("a new node has come")
            });
            let error = child.barrier().expect_err("rank 1 does not come");
            assert!(asks.join().expect("no panic"), "nothing was wrong");
            error
        } else {
            loop {
                match child.health() {
                    Ok(_) => std::thread::yield_now(),
                    Err(error) => break error,
                }
            }
        };
        assert!(matches!(error, Error::Revocation(_)), "{error}");
        assert!(error.to_string().contains("a new node has come"), "{error}");
        drop(child);
        world.recover()?;
        world.barrier()?;
        world.finish()
    })?;
    Ok(())
}

#[test]
fn a_rank_that_gives_up_in_a_split_is_not_waited_for() -> Result<()> {
    let (over, is_over) = channel();
    let is_over = Mutex::new(is_over);
    Host::spmd(2, |place| -> Result<()> {
        let mut world = place.init()?;
        world.barrier()?;
        if world.rank().index() == 1 {
            // It has asked for its place, and never takes it.
            assert!(world.abort_handle().abort("enough"));
            let error = world.split::<Expert>(0, 0).expect_err("an abort was asked for");
            assert!(matches!(error, Error::Abort(_)), "{error}");
            over.send(()).expect("rank 0 waits");
            return Ok(());
        }
        is_over.lock().expect("one rank takes it").recv().expect("rank 1 gives up");
        let error = world.split::<Expert>(0, 0).expect_err("rank 1 does not come");
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
        Ok(())
    })
    .map(drop)
}

#[test]
fn a_child_goes_on_when_a_rank_that_has_it_aborts_its_parent() {
    for _ in 0..50 {
        spmd::<Host>(2, |place| {
            let mut world = place.init()?;
            let child = world.split::<Expert>(0, world.rank().index())?;
            // The other rank may not have looked yet whether all have joined.
            if world.rank().index() == 1 {
                drop(world.abort());
            }
            let mut x = child.device().from_slice(&[1.0_f32])?;
            child.all_reduce_in_place(&mut x, Sum)?;
            assert_eq!(x.to_vec()?, [2.0]);
            child.finish()
        })
        .expect("the child has all of its ranks");
    }
}
