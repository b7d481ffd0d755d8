//! Sends and receives that do not fit each other.

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

/// What a rank calls; the line of what does not fit.
type Part = fn(&mut Comm, &mut Floats) -> Result<u32>;

/// What each of three ranks is told at the end of its part.
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

/// All three are told that transfer `number` from rank 0 to rank 1 differs.
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

/// A rank that has no part in it.
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

/// What one rank refused takes its turn; the other is told of the refusal, not of what comes next.
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
