//! Sends and receives that do not match.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use typed_nccl::{
    AnyDevice, Buffer, CommConfig, Communicator, Cuda, Error, Max, Result, Seat, Sum,
};

use crate::common::says;
use crate::scenario::{NEWEST, on};
use crate::waits::hold;

type Comm = Communicator<Cuda<AnyDevice>>;
type Floats = Buffer<f32, Cuda<AnyDevice>>;

/// A rank's calls; returns the line of the mismatch.
type Part = fn(&mut Comm, &mut Floats) -> Result<u32>;

/// The error of each of three ranks at the end of its part.
fn play(parts: [Part; 3]) -> Vec<(u32, Error)> {
    let together = Barrier::new(3);
    let rank = |seat: Seat, part: Part| {
        let device = Cuda::any(seat.rank().index() as u32)?;
        let config = CommConfig::builder().deadline(Duration::from_secs(20)).build();
        let mut comm =
            Communicator::builder().seat(seat).device(device).config(config).build().connect()?;
        let mut x = comm.device().zeros::<f32>(1024)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        hold(comm.stream())?;
        let line = part(&mut comm, &mut x)?;
        comm.all_reduce_in_place(&mut x, Max)?;
        together.wait();
        Ok::<_, Error>((line, x.to_vec().map(drop).expect_err("they differ")))
    };
    thread::scope(|scope| {
        let seats = Seat::local(3).into_iter().zip(parts);
        let spawn = |(seat, part)| scope.spawn(move || rank(seat, part));
        let threads: Vec<_> = seats.map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic").expect("told")).collect()
    })
}

/// All three report that transfer `number` from rank 0 to rank 1 differs.
fn differ(number: u64, counts: [usize; 2], parts: [Part; 3]) {
    let told = play(parts);
    let [a, b] = counts;
    let (here, there) = (told[0].0, told[1].0);
    let at = "at tests/doubles/transfers.rs";
    let what = format!("transfer #{number} from rank 0 to rank 1 on World differs between ranks: ");
    let send = format!("rank 0 called send of {a} f32 to 1, {at}:{here}; ");
    let recv = format!("rank 1 called recv of {b} f32 from 0, {at}:{there}; ");
    for (_, error) in &told {
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        says(error, &[&what, &send, &recv, "receives in their order", "has ended"]);
    }
}

/// A rank without a part in it.
fn nothing(_: &mut Comm, _: &mut Floats) -> Result<u32> {
    Ok(0)
}

#[test]
fn of_different_lengths() {
    on(NEWEST, || {
        let send: Part = |comm, x| comm.send(&x.slice(0..256), 1).map(|()| line!());
        let recv: Part = |comm, x| comm.recv(x, 0).map(|()| line!());
        differ(0, [256, 1024], [send, recv, nothing]);
        Ok(())
    });
}

/// Rank 1 passes the splits of the way back: the error names the call, on all ranks.
#[test]
fn of_splits_that_differ() {
    fn passes(comm: &mut Comm, x: &mut Floats, goes_back: bool) -> Result<u32> {
        let counts = [[0, 7, 0], [5, 0, 0], [0, 0, 0]];
        let splits = comm.splits(&counts[comm.rank().index()])?;
        let splits = if goes_back { splits.transposed() } else { splits };
        let mut y = comm.device().zeros::<f32>(splits.recv_len())?;
        comm.all_to_all_v(&x.slice(..splits.send_len()), &mut y, &splits)?;
        Ok(line!() - 1)
    }
    on(NEWEST, || {
        let as_declared: Part = |comm, x| passes(comm, x, false);
        for (line, error) in play([as_declared, |comm, x| passes(comm, x, true), as_declared]) {
            assert!(matches!(error, Error::Mismatch(_)), "{error}");
            let at = format!("tests/doubles/transfers.rs:{line}");
            says(&error, &["called all_to_all_v (send of 7 f32 to ", &at]);
            says(&error, &["called all_to_all_v (recv of 5 f32 from ", "must agree"]);
        }
        Ok(())
    });
}

/// Transfers with others do not count, and groups do not either.
#[test]
fn in_another_order() {
    on(NEWEST, || {
        let send: Part = |comm, x| {
            comm.send(&x.slice(0..8), 1)?;
            comm.group(|g| {
                g.send(x.slice(0..99), 2)?;
                g.send(x.slice(0..256), 1)?;
                g.send(x.slice(0..512), 1)
            })?;
            Ok(line!() - 3)
        };
        let recv: Part = |comm, x| {
            let (first, rest) = x.all_mut().split_at_mut(8);
            let (long, mut short) = rest.into_slice(0..768).split_at_mut(512);
            comm.group(|g| {
                g.recv(first, 0)?;
                g.recv(long, 0)
            })?;
            let line = line!() - 2;
            comm.recv(&mut short, 0)?;
            Ok(line)
        };
        let other: Part = |comm, x| comm.recv(&mut x.slice_mut(0..99), 0).map(|()| 0);
        differ(1, [256, 512], [send, recv, other]);
        Ok(())
    });
}

#[test]
fn of_different_types() {
    on(NEWEST, || {
        let send: Part = |comm, x| comm.send(x, 1).map(|()| line!());
        let recv: Part = |comm, _| {
            let mut integers = comm.device().zeros::<i32>(1024)?;
            comm.recv(&mut integers, 0).map(|()| line!())
        };
        let told = play([send, recv, nothing]);
        for (_, error) in &told {
            assert!(matches!(error, Error::Mismatch(_)), "{error}");
            says(error, &["send of 1024 f32 to 1, at", "recv of 1024 i32 from 0, at"]);
        }
        Ok(())
    });
}

/// A refused transfer takes its turn; the other rank gets the refusal, not a mismatch with the next
/// one.
#[test]
fn after_a_refusal() {
    on(NEWEST, || {
        let send: Part = |comm, x| {
            comm.send(&x.slice(0..9999), 1).expect_err("past the end");
            comm.send(&x.slice(0..256), 1).map(|()| line!())
        };
        let recv: Part = |comm, x| {
            comm.recv(x, 0)?;
            comm.recv(&mut x.slice_mut(0..256), 0).map(|()| line!())
        };
        let told = play([send, recv, nothing]);
        assert!(matches!(told[1].1, Error::Refused(_)), "{}", told[1].1);
        says(&told[1].1, &["recv of 1024 f32 from 0", "rank 0 refused its part"]);
        Ok(())
    });
}

/// The outcome of each of two ranks' `finish` after its own part.
fn finished(
    part: impl Fn(&Comm, &mut Floats, usize) -> Result<()> + Sync,
) -> Result<[std::result::Result<(), String>; 2]> {
    let together = Barrier::new(2);
    let rank = |seat: Seat| -> Result<_> {
        let device = Cuda::any(seat.rank().index() as u32)?;
        let comm = seat.init(device)?;
        let (rank, mut x) = (comm.rank().index(), comm.device().zeros::<f32>(1024)?);
        part(&comm, &mut x, rank)?;
        comm.sync(comm.stream())?;
        together.wait();
        Ok(comm.finish().map_err(|error| {
            assert!(matches!(error, Error::PeerFailed(_)), "{error}");
            error.to_string()
        }))
    };
    thread::scope(|scope| {
        let [a, b] = Seat::local(2).try_into().expect("two ranks");
        let (a, b) = (scope.spawn(|| rank(a)), scope.spawn(|| rank(b)));
        Ok([a.join().expect("no panic")?, b.join().expect("no panic")?])
    })
}

/// NCCL sends what fits into its buffers whether or not it is received.
#[test]
fn that_nobody_receives() {
    on(NEWEST, || {
        let line = line!() + 2;
        let [here, there] = finished(|comm, x, rank| match rank {
            0 => comm.send(&*x, 1),
            _ => Ok(()),
        })?;
        let (here, there) = (here.expect_err("unmet"), there.expect_err("unmet"));
        let what = format!(
            "transfer #0 (send of 1024 f32 to 1, at tests/doubles/transfers.rs:{line}) on World \
             cannot complete: rank 1 left: it called `finish` at tests/doubles/transfers.rs:"
        );
        assert!(here.contains(&what), "{here}");
        assert!(there.contains("rank 0 left: ") && there.contains(&what), "{there}");
        Ok(())
    });
}

/// The report on a rank that does not finish: why, and what it never received.
#[test]
fn that_a_rank_which_is_aborted_or_dropped_does_not_receive() {
    let ends: [(fn(Comm), &str); 2] = [
        (|comm| drop(comm.abort_because("enough")), "rank 1 left: it was aborted (at"),
        (|comm| drop(comm), "rank 1 left: its communicator was dropped without `finish`"),
    ];
    for (end, why) in ends {
        let line = line!() + 5;
        on(NEWEST, || {
            let together = Barrier::new(2);
            let sent = |comm: &Comm| -> Result<()> {
                let x = comm.device().zeros::<f32>(1024)?;
                comm.send(&x, 1)?;
                comm.sync(comm.stream())
            };
            let rank = |seat: Seat| -> Result<()> {
                let device = Cuda::any(seat.rank().index() as u32)?;
                let comm = seat.init(device)?;
                if comm.rank().index() == 1 {
                    together.wait();
                    end(comm);
                    return Ok(());
                }
                sent(&comm)?;
                together.wait();
                comm.finish()
            };
            thread::scope(|scope| {
                let [a, b] = Seat::local(2).try_into().expect("two ranks");
                let (a, b) = (scope.spawn(|| rank(a)), scope.spawn(|| rank(b)));
                b.join().expect("no panic")?;
                let told = a.join().expect("no panic").expect_err("rank 1 does not finish");
                assert!(matches!(told, Error::PeerFailed(_)), "{told}");
                let told = told.to_string();
                let what = format!(
                    "transfer #0 (send of 1024 f32 to 1, at tests/doubles/transfers.rs:{line}) on \
                     World cannot complete: {why}"
                );
                assert!(told.contains(&what), "{told}");
                Ok(())
            })
        });
    }
}

/// A refused transfer was not sent.
#[test]
fn that_are_met_or_refused_are_no_loss() {
    on(NEWEST, || {
        let told = finished(|comm, x, rank| {
            if rank == 1 {
                return comm.recv(x, 0);
            }
            comm.send(&*x, 1)?;
            let elsewhere = typed_nccl::Device::zeros::<f32>(&Cuda::any(1)?, 4)?;
            comm.send(&elsewhere, 1).expect_err("of another device");
            Ok(())
        })?;
        assert_eq!(told, [Ok(()), Ok(())]);
        Ok(())
    });
}
