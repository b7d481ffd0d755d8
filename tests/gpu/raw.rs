//! Communicators made by NCCL's own functions, in threads of one process.

use std::thread;

use typed_nccl::{Communicator, Cuda, Error, Result, Seat, Sum};

use crate::common::{gpu, ranks, says};
use crate::runner::shared;

#[path = "../raw/body.rs"]
mod body;

use body::{Raw, config, goes_round, id};

type Gpu = Cuda<typed_nccl::AnyDevice>;
type Comm = Communicator<Gpu>;

/// Runs a rank on each of this many GPUs, with an NCCL communicator.
fn each<R: Send>(n: usize, blocks: bool, body: impl Fn(usize, Raw) -> R + Sync) -> Result<Vec<R>> {
    let id = id();
    let live = |rank: usize| -> Result<R> {
        Ok(body(rank, Raw::join(&gpu(rank)?, id, (rank, n), blocks)?))
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..n).map(|rank| scope.spawn(move || live(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

fn adopt(seat: Seat, device: Gpu, raw: Raw) -> Result<Comm> {
    let comm = Communicator::builder().seat(seat).device(device).config(config()).build();
    // SAFETY: nothing else uses it until it is given back, or refused.
    unsafe { comm.with_raw(raw.comm) }.connect()
}

/// A rank's seats in several communicators.
struct Seats(Vec<std::sync::Mutex<Vec<Option<Seat>>>>);

impl Seats {
    fn new(of: usize, size: usize) -> Self {
        let seats = || std::sync::Mutex::new(Seat::local(size).into_iter().map(Some).collect());
        Self((0..of).map(|_| seats()).collect())
    }

    fn take(&self, of: usize, rank: usize) -> Seat {
        self.0[of].lock().expect("no panic")[rank].take().expect("it is taken once")
    }
}

fn round(blocks: bool) -> Result<()> {
    let n = ranks()?;
    let seats = Seats::new(2, n);
    let rounds = each(n, blocks, |rank, raw| {
        goes_round(raw, || gpu(rank), [seats.take(0, rank), seats.take(1, rank)])
    })?;
    rounds.into_iter().collect()
}

pub(crate) fn of_another_library_and_back() -> Result<()> {
    round(true)
}

pub(crate) fn one_that_does_not_block() -> Result<()> {
    round(false)
}

/// A communicator is refused on both ranks with this error, and stays usable.
fn refused(take: impl Fn(usize, Seat, Raw) -> Result<Comm> + Sync, parts: &[&str]) -> Result<()> {
    let seats = Seats::new(1, 2);
    let outcomes = each(2, true, |rank, raw| {
        let error = take(rank, seats.take(0, rank), raw).expect_err("it does not fit");
        assert!(matches!(error, Error::InitFailed(_)), "{error}");
        says(&error, parts);
        assert_eq!(raw.sum(&gpu(rank)?, 1 + rank as i64)?, 3);
        raw.destroy();
        Ok(())
    })?;
    outcomes.into_iter().collect()
}

pub(crate) fn what_does_not_fit_is_refused() -> Result<()> {
    let second = if shared() > 1 { 0 } else { 1 };
    let seat_of = format!("rank 1 of 2 on cuda:{second}, to a seat of rank 0 of 2 on cuda:");
    let other = std::sync::Mutex::new(Vec::new());
    // The ranks exchange their communicators.
    let both = std::sync::Barrier::new(2);
    let swap = |rank: usize, seat: Seat, raw: Raw| {
        other.lock().expect("no panic").push((rank, raw));
        both.wait();
        let theirs =
            other.lock().expect("no panic").iter().find(|(of, _)| *of != rank).map(|x| x.1);
        let outcome = adopt(seat, gpu(rank)?, theirs.expect("both have come"));
        both.wait();
        outcome
    };
    refused(swap, &["brought a communicator that is", &seat_of])?;
    if shared() == 1 {
        let crossed = |rank: usize, seat, raw| adopt(seat, gpu(1 - rank)?, raw);
        let there = "is rank 0 of 2 on cuda:0, to a seat of rank 0 of 2 on cuda:1";
        refused(crossed, &["rank 0", there])?;
    }
    let null = |rank: usize, seat, raw: Raw| {
        let nothing = Raw { comm: std::ptr::null_mut(), ..raw };
        adopt(seat, gpu(rank)?, if rank == 1 { nothing } else { raw })
    };
    refused(null, &["rank 1 brought a communicator that is null"])?;
    let lacks = |rank: usize, seat: Seat, raw| match rank {
        0 => adopt(seat, gpu(rank)?, raw),
        _ => seat.init(gpu(rank)?),
    };
    refused(lacks, &["rank 1 did not bring a communicator", "from_raw"])?;
    // One of another size.
    let seats = Seats::new(1, 2);
    let outcomes = each(1, true, |_, raw| {
        let alone = |rank: usize, raw: Raw| adopt(seats.take(0, rank), gpu(rank)?, raw);
        thread::scope(|scope| {
            let other = scope.spawn(move || {
                let nothing = raw;
                alone(1, nothing)
            });
            let own = alone(0, raw).expect_err("it has one rank");
            says(&own, &["rank 0", "is rank 0 of 1 on cuda:0, to a seat of rank 0 of 2"]);
            assert!(other.join().expect("no panic").is_err());
        });
        raw.destroy();
    })?;
    drop(outcomes);
    Ok(())
}

/// It is given back only if all ranks continue in the same way.
pub(crate) fn ends_that_differ() -> Result<()> {
    let seats = Seats::new(1, 2);
    let outcomes = each(2, true, |rank, raw| {
        let comm = adopt(seats.take(0, rank), gpu(rank)?, raw)?;
        let error = match rank {
            0 => comm.finish().expect_err("the other goes on with it"),
            _ => {
                let failed = comm.into_raw().expect_err("the other destroys it");
                failed.value.abort();
                failed.error
            }
        };
        says(&error, &["into_raw", "finish"]);
        Ok(())
    })?;
    outcomes.into_iter().collect()
}

/// An unawaited signal is reported before another library could take it for its own.
pub(crate) fn what_is_left_over_is_told() -> Result<()> {
    let seats = Seats::new(1, 2);
    let outcomes = each(2, true, |rank, raw| {
        let mut comm = adopt(seats.take(0, rank), gpu(rank)?, raw)?;
        let window = comm.window::<i32>(4)?;
        if rank == 0 {
            comm.signal(1)?;
        }
        let again = match comm.into_raw() {
            Ok(given) => given,
            Err(failed) => {
                assert_eq!(rank, 1, "{}", failed.error);
                assert!(matches!(failed.error, Error::Unawaited(_)), "{}", failed.error);
                failed.value.into_raw()?
            }
        };
        assert!(std::ptr::eq(again, raw.comm));
        assert_eq!(window.to_vec()?, [0; 4]);
        assert_eq!(raw.sum(&gpu(rank)?, 1)?, 2);
        raw.destroy();
        Ok(())
    })?;
    outcomes.into_iter().collect()
}

/// One rank is lost: the other continues with a communicator of ours, and gives that away.
pub(crate) fn one_that_lost_a_rank() -> Result<()> {
    let (seats, ready) = (Seats::new(1, 2), std::sync::Barrier::new(2));
    let outcomes = each(2, true, |rank, raw| {
        let mut comm = adopt(seats.take(0, rank), gpu(rank)?, raw)?;
        ready.wait();
        if rank == 1 {
            comm.abort();
            return Ok(());
        }
        let mut x = comm.device().from_slice(&[1.0_f32])?;
        let lost = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| comm.stream().sync());
        lost.expect_err("rank 1 is gone");
        comm.recover()?;
        let mut x = comm.device().from_slice(&[1.0_f32])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let alone = Raw { comm: comm.into_raw()?, ..raw };
        assert_eq!(alone.sum(&gpu(0)?, 5)?, 5);
        alone.destroy();
        Ok(())
    })?;
    outcomes.into_iter().collect()
}
