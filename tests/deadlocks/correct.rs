//! Correct programs whose waits are long enough to be examined: no deadlock is reported.

use std::thread;
use std::time::Duration;

use typed_nccl::{Result, Signals, Stream, Sum, Window, tag};

use super::common::{Comm, Dev, ranks};

tag!(Half);

/// A small generator: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Often nothing, at times longer than a wait sleeps before it is examined.
    fn nap(&mut self) {
        let millis = [0, 0, 0, 3, 12, 30][self.below(6) as usize];
        if millis > 0 {
            thread::sleep(Duration::from_millis(millis));
        }
    }
}

struct Player {
    comm: Comm,
    other: Stream<Dev>,
    window: Window<u32, Dev>,
    source: Window<u32, Dev>,
    /// The rank's own random numbers, which decide its delays.
    own: Random,
}

impl Player {
    /// One step of a program that all ranks play, with delays of its own.
    fn step(&mut self, step: u64) -> Result<()> {
        let Self { comm, other, window, source, own } = self;
        own.nap();
        let (left, right) = (comm.ring(-1), comm.ring(1));
        let mut x = comm.device().from_slice(&[1_u32; 8])?;
        let mut y = comm.device().zeros::<u32>(8)?;
        let stream = if own.below(2) == 0 { comm.stream() } else { &*other };
        if own.below(2) == 0 {
            // Later work waits for it.
            let mut slow = Random(own.below(1 << 40));
            stream.launch(&mut x, move |_, ()| slow.nap())?;
        }
        match step {
            0 => comm.on(stream).all_reduce_in_place(&mut x, Sum)?,
            1 => comm.group(|g| {
                g.send(&x, right)?;
                g.recv(&mut y, left)
            })?,
            2 if comm.rank().index() % 2 == 0 && right.index() != 0 => {
                comm.on(stream).send(&x, right)?;
            }
            2 if comm.rank().index() % 2 == 1 => comm.on(stream).recv(&mut x, left)?,
            2 => {}
            3 => {
                // On two streams: the wait comes after the put that the other rank waits for.
                comm.on(stream).put_signal(&*source, right, window.at(0))?;
                let mut all = Signals::new();
                all.expect(left);
                own.nap();
                comm.wait_signals(&all)?;
                assert_eq!(window.to_vec()?, [1; 8]);
                comm.barrier()?;
            }
            4 => comm.barrier()?,
            5 => drop(comm.gather_values(&comm.rank().index())?),
            6 => comm.split::<Half>((comm.rank().index() % 2) as u32, 0)?.finish()?,
            7 => comm.sync(&*other)?,
            _ => drop(x.to_vec()?),
        }
        Ok(())
    }

    fn play(mut self, mut program: Random) -> Result<()> {
        for _ in 0..12 {
            self.step(program.below(9))?;
            if program.below(6) == 0 {
                // Another thread proceeds, and this one waits for it.
                let rest = Random(program.below(1 << 40));
                return thread::spawn(move || self.play_on(rest)).join().expect("no panic");
            }
        }
        self.play_on(program)
    }

    fn play_on(mut self, mut program: Random) -> Result<()> {
        for _ in 0..8 {
            self.step(program.below(9))?;
        }
        let Self { comm, .. } = self;
        comm.finish()
    }
}

#[test]
fn no_random_program_is_told_of_a_deadlock() {
    let seeds = std::env::var("STRESS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    for first in (0..seeds).step_by(8) {
        let play = |seed: u64| {
            let outcomes = ranks(2 + (seed % 4) as usize, move |mut comm| {
                let other = comm.device().stream()?;
                let window = comm.window::<u32>(8)?;
                let mut source = comm.window::<u32>(8)?;
                source.copy_from(&[1; 8])?;
                let own = Random(seed * 100 + comm.rank().index() as u64);
                Player { comm, other, window, source, own }.play(Random(seed))
            });
            for outcome in outcomes {
                outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        };
        let threads: Vec<_> =
            (first..first + 8).map(|seed| thread::spawn(move || play(seed))).collect();
        for thread in threads {
            thread.join().expect("it holds");
        }
    }
}

/// This looks like a deadlock until another thread makes the call.
#[test]
fn a_call_may_come_from_any_thread() {
    let outcomes = ranks(2, |comm| {
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        let mut y = comm.device().zeros::<f32>(4)?;
        let rank = comm.rank().index();
        if rank == 0 {
            comm.all_reduce_in_place(&mut x, Sum)?;
        }
        comm.stream().launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
        // The thread that had the communicator waits in a buffer's call, and so does the other
        // rank's. Only the communicator's new owner can end it.
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            if rank == 1 {
                let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
                comm.all_reduce_in_place(&mut x, Sum)?;
            }
            comm.finish()
        });
        let found = y.to_vec()?;
        late.join().expect("no panic")?;
        Ok(found)
    });
    for (rank, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.as_ref().expect("no deadlock")[0], [2.0, 1.0][rank]);
    }
}
