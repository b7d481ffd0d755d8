//! From init to the end, and all other ends.

use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{
    AnyDevice, Clique, CommConfig, Communicator, Cuda, Error, Mesh, Rank, Result, Seat, Sum,
    UniqueId, tag,
};

use crate::common::{connect, connect_for, gpu, ranks, says, seconds, soon, told};
use crate::runner;

tag!(Rows, Columns, Half, Other);

pub(crate) fn again_and_again() -> Result<()> {
    for n in [1, ranks()?] {
        for _ in 0..4 {
            let sums = Cuda::spmd(n, |place| {
                let comm = place.init()?;
                let mut x = comm.device().from_slice(&[comm.rank().index() as u64 + 1])?;
                comm.all_reduce_in_place(&mut x, Sum)?;
                let sum = x.to_vec()?[0];
                comm.finish()?;
                Ok::<_, Error>(sum)
            })?;
            assert!(sums.iter().all(|&sum| sum == (n * (n + 1) / 2) as u64), "{sums:?}");
        }
    }
    Ok(())
}

/// As many NCCL ids as ranks.
pub(crate) fn an_id_for_each_rank() -> Result<()> {
    let n = ranks()?;
    let ids = (0..n).map(|_| UniqueId::new()).collect::<Result<Vec<_>>>()?;
    let rank = |rank: usize| -> Result<()> {
        let comm = Seat::with_ids(&ids, rank, n)?.init(gpu(rank)?)?;
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [n as u64]);
        comm.finish()
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..n).map(|one| scope.spawn(move || rank(one))).collect();
        ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
    })
}

pub(crate) fn dropped_communicators_end_by_themselves() -> Result<()> {
    let n = ranks()?;
    for _ in 0..3 {
        Cuda::spmd(n, |place| -> Result<()> {
            let comm = place.init()?;
            let mut x = comm.device().from_slice(&[1.0_f32; 1000])?;
            comm.all_reduce_in_place(&mut x, Sum)
            // Both are dropped while the device works.
        })?;
    }
    again_and_again()
}

/// Kernels that NCCL stops have written nothing, and each reading thread gets an error. Earlier
/// results are valid.
pub(crate) fn each_thread_is_told_what_never_came() -> Result<()> {
    Cuda::spmd(ranks()?, |place| -> Result<()> {
        let comm = connect(place, 40)?;
        let n = comm.size() as f32;
        let mut before = comm.device().from_slice(&[1.0_f32; 1000])?;
        comm.all_reduce_in_place(&mut before, Sum)?;
        comm.sync(comm.stream())?;
        // Made first: a wait after rank 1 has left reports that.
        let mut made = Vec::new();
        for _ in 0..2 {
            made.push((comm.device().stream()?, comm.device().from_slice(&[1.0_f32; 1000])?));
        }
        comm.barrier()?;
        if comm.rank().index() == 1 {
            comm.abort_because("it has seen enough");
            return Ok(());
        }
        let mut data = Vec::new();
        for (stream, mut x) in made {
            // Rank 1 never comes; this rank may know by now.
            if comm.on(&stream).all_reduce_in_place(&mut x, Sum).is_ok() {
                data.push(x);
            }
        }
        drop(comm);
        thread::scope(|scope| {
            for x in data {
                scope.spawn(move || {
                    for _ in 0..2 {
                        x.to_vec().expect_err("the sum never came");
                    }
                });
            }
        });
        // It was over before. A wait reports an unreported error once.
        let came = before.to_vec().or_else(|_| before.to_vec())?;
        assert_eq!(came, [n; 1000]);
        Ok(())
    })
    .map(drop)
}

pub(crate) fn an_abort_ends_the_others_waits() -> Result<()> {
    let started = Instant::now();
    let n = ranks()?;
    let outcome = Cuda::spmd(n, |place| {
        let comm = connect(place, 40)?;
        let mut x = comm.device().from_slice(&[1.0_f32; 1000])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.sync(comm.stream())?;
        comm.barrier()?;
        if comm.rank().index() == 1 {
            comm.abort_because("it has seen enough");
            return Ok(None);
        }
        // Rank 1 never comes.
        let called = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec());
        let error = called.expect_err("rank 1 is gone");
        assert!(comm.health().is_err());
        assert!(comm.all_reduce_in_place(&mut x, Sum).is_err());
        Ok::<_, Error>(Some(error))
    })?;
    for error in outcome.into_iter().flatten() {
        let Error::PeerFailed(failed) = &error else { panic!("{error}") };
        assert_eq!(failed.lost, [Rank::from_index(1)], "{error}");
        says(&error, &["it has seen enough"]);
    }
    soon(started);
    again_and_again()
}

pub(crate) fn a_panic_ends_the_others_waits() -> Result<()> {
    let started = Instant::now();
    let n = ranks()?;
    let outcome = std::panic::catch_unwind(|| {
        Cuda::spmd(n, |place| -> Result<()> {
            let comm = connect(place, 40)?;
            let mut x = comm.device().from_slice(&[1.0_f32; 1000])?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            comm.sync(comm.stream())?;
            comm.barrier()?;
            assert!(comm.rank().index() != 1, "rank 1 has a bug");
            comm.all_reduce_in_place(&mut x, Sum)?;
            x.to_vec().map(drop)
        })
    });
    let panic = outcome.expect_err("the panic comes through");
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    assert!(text.is_some_and(|text| text.contains("rank 1 has a bug")), "{text:?}");
    soon(started);
    again_and_again()
}

/// The error drops the communicator before anything has seen it.
pub(crate) fn an_error_is_told_to_the_others() -> Result<()> {
    let started = Instant::now();
    let outcome = Cuda::spmd(ranks()?, |place| -> Result<()> {
        let comm = connect(place, 40)?;
        let mut x = comm.device().from_slice(&[1.0_f32; 1000])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.sync(comm.stream())?;
        comm.barrier()?;
        if comm.rank().index() == 1 {
            return Err(Error::other(std::io::Error::other("disk full")));
        }
        let called = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec());
        let error = called.expect_err("rank 1 is gone");
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
        says(&error, &["rank 1 left: it returned an error: ", "disk full"]);
        Ok(())
    });
    says(&outcome.expect_err("rank 1 failed"), &["disk full"]);
    soon(started);
    again_and_again()
}

pub(crate) fn a_deadline_names_who_is_missing() -> Result<()> {
    let n = ranks()?;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place, 30)?;
        let mut x = comm.device().from_slice(&[1_i32; 10])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.sync(comm.stream())?;
        if comm.rank().index() == 0 {
            // The others do not call this one.
            let comm = comm.within(seconds(3));
            comm.all_reduce_in_place(&mut x, Sum)?;
            let error = comm.sync(comm.stream()).expect_err("nobody else is there");
            assert!(matches!(error, Error::Timeout(_)), "{error}");
            says(&error, &["rank 0, 2 collectives so far", "1 collective so far"]);
            says(&error, &["all_reduce of 10 i32, Sum, at tests/gpu/lifecycle.rs:"]);
        } else {
            says(&told(&comm), &["rank 0 left"]);
        }
        Ok::<_, Error>(())
    })?;
    again_and_again()
}

pub(crate) fn an_abort_handle_ends_a_wait() -> Result<()> {
    let started = Instant::now();
    let n = ranks()?;
    Cuda::spmd(n, |place| -> Result<()> {
        let comm = connect(place, 40)?;
        let mut x = comm.device().from_slice(&[1_u8; 10])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.sync(comm.stream())?;
        if comm.rank().index() != 0 {
            told(&comm);
            return Ok(());
        }
        let handle = comm.abort_handle();
        comm.all_reduce_in_place(&mut x, Sum)?;
        let asks = thread::spawn(move || {
            // Whether the other thread waits by then or not, its wait ends.
            thread::sleep(Duration::from_millis(500));
            handle.abort("the program ends")
        });
        let error = x.to_vec().expect_err("aborted");
        says(&error, &["the program ends"]);
        assert!(asks.join().is_ok_and(|asked| asked));
        Ok(())
    })?;
    soon(started);
    again_and_again()
}

pub(crate) fn a_seat_that_is_dropped() -> Result<()> {
    let started = Instant::now();
    let mut seats = Seat::local(2).into_iter();
    let (first, second) = (seats.next().expect("two"), seats.next().expect("two"));
    drop(second);
    let error = first.init(Cuda::local()?).expect_err("nobody else");
    says(&error, &["rank 1 left", "never taken"]);
    soon(started);
    again_and_again()
}

pub(crate) fn two_ranks_on_one_gpu() -> Result<()> {
    if runner::shared() > 1 {
        return two_ranks_share_a_gpu();
    }
    let outcomes: Vec<_> = thread::scope(|scope| {
        let connect = |seat: Seat| scope.spawn(|| seat.init(Cuda::<AnyDevice>::any(0)?).map(drop));
        let threads: Vec<_> = Seat::local(2).into_iter().map(connect).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for outcome in outcomes {
        let error = outcome.expect_err("refused by name");
        says(&error, &["ranks 0 and 1 are both on cuda:0"]);
    }
    Ok(())
}

fn two_ranks_share_a_gpu() -> Result<()> {
    Cuda::spmd(2 * Cuda::count()?, |place| -> Result<()> {
        let comm = place.init()?;
        let n = comm.size() as u64;
        let mut x = comm.device().from_slice(&[comm.rank().index() as u64 + 1])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [n * (n + 1) / 2]);
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn children_outlive_their_parent() -> Result<()> {
    let n = ranks()?;
    Cuda::spmd(n, |place| {
        let mut world = place.init()?;
        let rank = world.rank().index();
        let mut half = world.split::<Half>((rank % 2) as u32, 0)?;
        let Mesh { along_rows, along_cols } = world.mesh::<Rows, Columns>(n, 1)?;
        let mut x = world.device().from_slice(&[rank as i64])?;
        half.all_reduce_in_place(&mut x, Sum)?;
        let of_my_kind: usize = (0..n).filter(|other| other % 2 == rank % 2).sum();
        assert_eq!(x.to_vec()?, [of_my_kind as i64]);
        assert_eq!((along_rows.size(), along_cols.size()), (n, 1));
        world.finish()?;
        along_rows.all_reduce_in_place(&mut x, Sum)?;
        let all: usize = (0..n).map(|r| (0..n).filter(|o| o % 2 == r % 2).sum::<usize>()).sum();
        assert_eq!(x.to_vec()?, [all as i64]);
        // On its own stream, concurrently with the other's.
        let stream = half.device().stream()?;
        half.group_on(&stream, |g| g.all_reduce_in_place(&mut x, Sum))?;
        half.sync(&stream)?;
        along_rows.finish()?;
        along_cols.finish()?;
        half.finish()
    })
    .map(drop)
}

pub(crate) fn a_clique_of_all_gpus() -> Result<()> {
    let n = ranks()?;
    let config = CommConfig::builder().deadline(seconds(30)).build();
    for _ in 0..2 {
        let gpus = (0..n).rev().map(gpu).collect::<Result<_>>()?;
        let mut clique = Clique::init_as::<Half>(gpus, config.clone())?;
        let fill =
            |rank: Rank, device: &Cuda<AnyDevice>| device.from_slice(&[rank.index() as u32; 1000]);
        let (mut x, mut y) = (clique.per_rank(fill)?, clique.alloc::<u32>(1000)?);
        clique.all_reduce_in_place(&mut x, Sum)?;
        clique.group((&x, &mut y), |lane, (x, y)| {
            let (left, right) = (lane.ring(-1), lane.ring(1));
            lane.send(x, right)?;
            lane.recv(y, left)
        })?;
        let sum = (n * (n - 1) / 2) as u32;
        for values in clique.to_host(&y)? {
            assert_eq!(values, [sum; 1000]);
        }
        clique.finish()?;
    }
    Ok(())
}

pub(crate) fn init_in_steps() -> Result<()> {
    let n = ranks()?;
    let seats = Seat::local(n);
    let start = |(rank, seat): (usize, Seat)| seat.start(gpu(rank)?);
    let starting = seats.into_iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
    let until = Instant::now() + seconds(30);
    thread::scope(|scope| {
        let threads: Vec<_> = starting
            .into_iter()
            .map(|one| {
                scope.spawn(move || -> Result<()> {
                    let comm: Communicator<Cuda<AnyDevice>> = one.ready().wait_until(until)?;
                    comm.barrier()?;
                    comm.finish()
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// The others finish; this one had one more operation.
pub(crate) fn one_operation_too_many() -> Result<()> {
    let started = Instant::now();
    Cuda::spmd(2, |place| -> Result<()> {
        let comm = connect(place, 40)?;
        let mut x = comm.device().from_slice(&[1.0_f32; 10])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        if comm.rank().index() == 0 {
            let ended = comm.finish().expect_err("rank 1 does not get to its end");
            says(&ended, &["rank 1 left"]);
            return Ok(());
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        let error = x.to_vec().expect_err("rank 0 is through");
        says(&error, &["all_reduce of 10 f32", "rank 0 left", "it called `finish`"]);
        Ok(())
    })?;
    soon(started);
    again_and_again()
}

/// A thread that has never used its GPU can communicate.
pub(crate) fn on_a_thread_of_its_own() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 30)?;
        let mut x = comm.device().from_slice(&[1_u32; 100])?;
        let window = comm.window::<u32>(8)?;
        let moved = thread::scope(|scope| {
            let away = scope.spawn(move || -> Result<_> {
                for _ in 0..2 {
                    comm.all_reduce_in_place(&mut x, Sum)?;
                }
                comm.group(|g| g.all_reduce_in_place(&mut x, Sum))?;
                comm.lsa_team()?;
                let memory = comm.close(window)?;
                Ok((comm, x, memory))
            });
            away.join().expect("no panic")
        });
        let (comm, x, _) = moved?;
        let n = comm.size() as u32;
        assert_eq!(x.to_vec()?, [n * n * n; 100]);
        comm.finish()
    })
    .map(drop)
}

/// A communicator's first operation connects its ranks, and blocks its caller until all ranks call.
pub(crate) fn opposite_first_operations() -> Result<()> {
    let started = Instant::now();
    Cuda::spmd(2, |place| {
        let mut first = connect_for(place, seconds(3))?;
        let second = first.within(seconds(30)).split::<Other>(0, 0)?;
        let mut x = first.device().from_slice(&[1_i32; 10])?;
        let is_first = first.rank().index() == 0;
        let called = match is_first {
            true => first.all_reduce_in_place(&mut x, Sum),
            false => second.all_reduce_in_place(&mut x, Sum),
        };
        let called = called.and_then(|()| match is_first {
            true => second.all_reduce_in_place(&mut x, Sum),
            false => first.all_reduce_in_place(&mut x, Sum),
        });
        let error = called.and_then(|()| x.to_vec().map(drop)).expect_err("a deadlock");
        println!("rank {}: {error}", first.rank());
        says(&error, &["all_reduce of 10 i32, Sum, at tests/gpu/lifecycle.rs:"]);
        Ok::<_, Error>(())
    })?;
    soon(started);
    again_and_again()
}

pub(crate) fn connecting_to_a_rank_that_left() -> Result<()> {
    let started = Instant::now();
    Cuda::spmd(2, |place| {
        let comm = connect(place, 300)?;
        let mut x = comm.device().from_slice(&[1_i32; 10])?;
        if comm.rank().index() == 1 {
            // The other one is inside NCCL by now.
            thread::sleep(Duration::from_secs(1));
            comm.abort_because("it has seen enough");
            return Ok(());
        }
        let called = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec().map(drop));
        says(&called.expect_err("rank 1 is gone"), &["rank 1 left", "it has seen enough"]);
        Ok::<_, Error>(())
    })?;
    soon(started);
    again_and_again()
}

/// `main` returns while a thread that it does not join is inside NCCL.
pub(crate) fn the_end_while_a_rank_connects() -> Result<()> {
    let (told, hears) = std::sync::mpsc::channel();
    for (rank, seat) in Seat::local(2).into_iter().enumerate() {
        let told = told.clone();
        thread::spawn(move || {
            let config = CommConfig::builder().deadline(Duration::from_secs(300)).build();
            let device = gpu(rank)?;
            let comm = Communicator::builder().seat(seat).device(device).config(config);
            let comm = comm.build().connect()?;
            let mut x = comm.device().from_slice(&[1_i32; 10])?;
            let _ = told.send(());
            if rank == 1 {
                thread::sleep(Duration::from_secs(300));
            }
            comm.all_reduce_in_place(&mut x, Sum)
        });
    }
    for _ in 0..2 {
        hears.recv_timeout(Duration::from_secs(25)).expect("both connect");
    }
    thread::sleep(Duration::from_secs(1));
    Ok(())
}
