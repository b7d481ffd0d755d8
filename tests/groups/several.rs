//! Groups of several communicators.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{
    AnyDevice, Communicator, Error, Group, Host, Mesh, Result, Seat, Sum, World, group, tag,
};

use crate::ranks::spmd;

use super::says;

tag!(Rows, Cols);

/// A helper that records for two communicators.
fn both<'e, A: World, B: World<Device = A::Device>>(
    (a, b): &mut (Group<'e, A>, Group<'e, B>),
    x: &'e mut typed_nccl::Buffer<i64, A::Device>,
    y: &'e mut typed_nccl::Buffer<i64, A::Device>,
) -> Result<()> {
    a.all_reduce_in_place(x, Sum)?;
    b.all_reduce_in_place(y, Sum)
}

/// Also if the ranks name them in another order, and on one stream or two.
#[test]
fn two_axes_of_a_mesh_are_one_group() -> Result<()> {
    spmd::<Host>(6, |place| {
        let mut world = place.init()?;
        let (rank, device) = (world.rank().index(), world.device().clone());
        let Mesh { along_rows: mut rows, along_cols: mut cols } = world.mesh::<Rows, Cols>(2, 3)?;
        let (row, col) = (rank / 3, rank % 3);
        let (mut x, mut y) = (device.zeros::<i64>(50)?, device.zeros::<i64>(50)?);
        let stream = device.stream()?;
        for round in 0..8 {
            x.copy_from(&[rank as i64; 50])?;
            y.copy_from(&[rank as i64; 50])?;
            match (round + rank) % 4 {
                0 => group((&mut rows, &mut cols), |g| both(g, &mut x, &mut y))?,
                1 => group((&mut cols, &mut rows), |(cols, rows)| {
                    rows.all_reduce_in_place(&mut x, Sum)?;
                    cols.all_reduce_in_place(&mut y, Sum)
                })?,
                2 => group(((&mut cols, &stream), (&mut rows, &stream)), |(cols, rows)| {
                    cols.all_reduce_in_place(&mut y, Sum)?;
                    rows.all_reduce_in_place(&mut x, Sum)
                })?,
                _ => group(((&mut rows, &stream), &mut cols, &mut world), |(rows, cols, _)| {
                    rows.all_reduce_in_place(&mut x, Sum)?;
                    cols.all_reduce_in_place(&mut y, Sum)
                })?,
            }
            assert_eq!(x.to_vec()?, [2 * col as i64 + 3; 50]);
            assert_eq!(y.to_vec()?, [9 * row as i64 + 3; 50]);
        }
        // On one stream each, neighbours in opposite orders: none waits for the next around the
        // mesh.
        (x, y) = (device.from_slice(&[1; 50])?, device.from_slice(&[1; 50])?);
        for turn in 0..2 {
            let (r, c) = ((&mut rows, &stream), (&mut cols, &stream));
            match (row + col + turn) % 2 {
                0 => group((r, c), |g| both(g, &mut x, &mut y))?,
                _ => group((c, r), |g| both(g, &mut y, &mut x))?,
            }
        }
        assert_eq!((x.to_vec()?, y.to_vec()?), (vec![4; 50], vec![9; 50]));
        y.copy_from(&[9 * row as i64 + 3; 50])?;
        // The same memory in two communicators of one group: read by sums and by messages.
        let mut from = device.zeros::<i64>(50)?;
        group((&mut rows, &mut cols), |(rows, cols)| {
            let (left, right) = ((col + 2) % 3, (col + 1) % 3);
            rows.all_reduce(&y, &mut x, Sum)?;
            cols.send(&y, right)?;
            cols.recv(&mut from, left)
        })?;
        assert_eq!(x.to_vec()?, [15; 50]);
        assert_eq!(from.to_vec()?, [9 * row as i64 + 3; 50]);
        rows.finish()?;
        cols.finish()?;
        world.finish()
    })
    .map(drop)
}

/// One thread, several devices: a vector of communicators, each on its own.
#[test]
fn one_thread_with_several_devices() -> Result<()> {
    let devices = Host::open_each(&[0, 3, 1])?;
    let starting: Result<Vec<_>> = Seat::local(3)
        .into_iter()
        .zip(devices)
        .map(|(seat, device)| Communicator::builder().seat(seat).device(device).build().start())
        .collect();
    let mut comms: Vec<Communicator<Host<AnyDevice>>> =
        starting?.into_iter().map(|one| one.ready().wait()).collect::<Result<_>>()?;
    let mut xs = Vec::new();
    for comm in &comms {
        xs.push(comm.device().from_slice(&[comm.rank().index() as f32; 9])?);
    }
    group(comms.iter_mut().collect::<Vec<_>>(), |groups| {
        groups.iter_mut().zip(&mut xs).try_for_each(|(g, x)| g.all_reduce_in_place(x, Sum))
    })?;
    for x in &xs {
        assert_eq!(x.to_vec()?, [3.0; 9]);
    }
    // A buffer of another device is refused, on all of them.
    let outcome = group(comms.iter_mut().collect::<Vec<_>>(), |groups| {
        groups
            .iter_mut()
            .zip(xs.iter_mut().rev())
            .try_for_each(|(g, x)| g.all_reduce_in_place(x, Sum))
    });
    assert!(matches!(outcome, Err(Error::OtherDevice(_))), "{outcome:?}");
    for comm in comms {
        drop(comm);
    }
    Ok(())
}

#[test]
fn what_one_refuses_all_refuse_and_the_others_are_told() -> Result<()> {
    spmd::<Host>(4, |place| {
        let mut world = place.init()?;
        let (rank, device) = (world.rank().index(), world.device().clone());
        let Mesh { along_rows: mut rows, along_cols: mut cols } = world.mesh::<Rows, Cols>(2, 2)?;
        let (mut x, mut y) = (device.from_slice(&[1_i64; 8])?, device.from_slice(&[1_i64; 8])?);
        let mut gathered = device.zeros::<i64>(16)?;
        // Rank 0's call along the columns is bad. The others along its row and its column get an
        // error; rank 3 is in neither.
        let outcome = group((&mut rows, &mut cols), |(rows, cols)| {
            rows.all_reduce_in_place(&mut x, Sum)?;
            cols.all_gather(y.slice(0..8), gathered.slice_mut(0..if rank == 0 { 15 } else { 16 }))
        });
        let told =
            outcome.and_then(|()| rows.sync(rows.stream())).and_then(|()| cols.sync(cols.stream()));
        let refused = "all_gather: the receive buffer holds 15 i64";
        match rank {
            0 => {
                let error = told.expect_err("too short");
                assert!(matches!(error, Error::BadLength(_)), "{error}");
                says(&error, &[refused, "tests/groups/several.rs"]);
            }
            3 => told?,
            _ => says(&told.expect_err("told"), &["rank 0 refused", refused]),
        }
        // All ranks are in step.
        world.barrier()?;
        x.copy_from(&[1; 8])?;
        group((&mut rows, &mut cols), |g| both(g, &mut x, &mut y))?;
        assert_eq!((x.to_vec()?, y.to_vec()?), (vec![2; 8], vec![2; 8]));
        rows.finish()?;
        cols.finish()?;
        world.finish()
    })
    .map(drop)
}

/// A poisoned one issues nothing, so the others do not either.
#[test]
fn a_poisoned_one_is_a_refusal_on_the_others() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut world = place.init()?;
        let (rank, device) = (world.rank().index(), world.device().clone());
        let mut rows = world.split::<Rows>(0, 0)?;
        world.barrier()?;
        let (mut x, mut y) = (device.zeros::<i64>(8)?, device.zeros::<i64>(8)?);
        if rank == 0 {
            rows.abort_handle().abort("a reason");
        }
        while rows.health().is_ok() {
            thread::yield_now();
        }
        let outcome = group((&mut world, &mut rows), |(world, rows)| {
            world.all_reduce_in_place(&mut x, Sum)?;
            rows.all_reduce_in_place(&mut y, Sum)
        });
        says(&outcome.expect_err("poisoned"), &["a reason"]);
        // Both refused it, so it has not happened, and the other one continues.
        x.copy_from(&[1; 8])?;
        world.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [2; 8]);
        drop(rows.abort());
        world.finish()
    })
    .map(drop)
}

/// Rank 0 poisons one communicator after the other, and a rank that was refused by the first has
/// enqueued nothing on the second.
fn poisoned(sync: impl Fn() -> Result<()>) -> Error {
    let started = Instant::now();
    loop {
        match sync() {
            Err(error) => return error,
            Ok(()) => assert!(started.elapsed() < Duration::from_secs(60), "it is not poisoned"),
        }
        thread::yield_now();
    }
}

#[test]
fn a_closure_that_fails_poisons_all_of_them() -> Result<()> {
    for panics in [false, true] {
        spmd::<Host>(2, |place| -> Result<()> {
            let mut world = place.init()?;
            let mut rows = world.split::<Rows>(0, 0)?;
            world.barrier()?;
            let (mut x, y) = (world.device().zeros::<i64>(8)?, world.device().zeros::<i64>(8)?);
            let why = if panics { "panicked: in the closure" } else { "returned an error" };
            if world.rank().index() == 0 {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    group((&mut world, &mut rows), |(world, _)| {
                        world.all_reduce_in_place(&mut x, Sum)?;
                        assert!(!panics, "in the closure");
                        let found = "its own".to_owned();
                        let own = typed_nccl::error::SizeVariable { found };
                        Err::<(), _>(Error::SizeVariable(Box::new(own)))
                    })
                }));
                assert_eq!(outcome.is_err(), panics);
            } else {
                let outcome = group((&mut world, &mut rows), |(world, rows)| {
                    world.all_reduce_in_place(&mut x, Sum)?;
                    rows.send(&y, 0)
                });
                if let Err(error) = outcome {
                    says(&error, &[why]);
                }
            }
            says(&poisoned(|| world.sync(world.stream())), &[why, "tests/groups/several.rs"]);
            says(&poisoned(|| rows.sync(rows.stream())), &[why, "tests/groups/several.rs"]);
            drop(rows.abort());
            drop(world.abort());
            Ok(())
        })?;
    }
    Ok(())
}
