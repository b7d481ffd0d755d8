//! Building blocks of the programs.

use std::sync::{Barrier, Mutex};

use std::time::Duration;

use typed_nccl::error::Hazard;
use typed_nccl::{
    AnyDevice, Buffer, CommConfig, Communicator, Error, Host, Result, Seat, Signals, Stream, Window,
};

pub(crate) type Dev = Host<AnyDevice>;

/// The line of this file that contains `what`.
pub(crate) fn line_of(what: &str) -> u32 {
    let marks = |line: &str| line.ends_with(&format!("// {what}"));
    let at = include_str!("play.rs").lines().position(marks);
    u32::try_from(at.expect("a marked line")).expect("a short file") + 1
}

/// A rank that plays a program.
pub(crate) struct Player {
    pub(crate) comm: Communicator<Dev>,
    pub(crate) rank: usize,
    pub(crate) window: Window<u32, Dev>,
    pub(crate) source: Window<u32, Dev>,
    pub(crate) seen: Buffer<u32, Dev>,
    pub(crate) one: Buffer<u32, Dev>,
    pub(crate) all: Buffer<u32, Dev>,
    pub(crate) side: Stream<Dev>,
}

impl Player {
    pub(crate) fn put(&self, to: usize) -> Result<()> {
        self.comm.put_signal(self.source.slice(0..8), to, self.window.at(4)) // the put
    }

    /// A put in a given context.
    pub(crate) fn put_in(&self, to: usize, context: u32) -> Result<()> {
        let slot = self.comm.signal_in(context, 0)?;
        self.comm.put_signal(self.source.slice(0..8), to, self.window.at(4).raising(slot))
    }

    pub(crate) fn read(&mut self) -> Result<()> {
        self.comm.stream().launch((&self.window, &mut self.seen), |_, ()| {}) // the read
    }

    pub(crate) fn read_aside(&mut self) -> Result<()> {
        self.side.launch((&self.window, &mut self.seen), |_, ()| {})
    }

    pub(crate) fn write(&mut self) -> Result<()> {
        self.comm.stream().launch(&mut self.window, |_, ()| {})
    }

    pub(crate) fn signal_in(&self, to: usize, context: u32, index: u32) -> Result<()> {
        self.comm.signal_slot(to, self.comm.signal_in(context, index)?)
    }

    pub(crate) fn wait_in(&self, from: usize, context: u32, index: u32) -> Result<()> {
        let mut one = Signals::new();
        one.expect_in(from, self.comm.signal_in(context, index)?, 1);
        self.comm.wait_signals(&one)
    }
}

/// Plays a program on all ranks; returns the errors by rank.
pub(crate) fn play(
    ranks: usize,
    program: impl Fn(&mut Player) -> Result<()> + Sync,
) -> Vec<Vec<Hazard>> {
    let told: Vec<Mutex<Vec<Hazard>>> = (0..ranks).map(|_| Mutex::default()).collect();
    let note = |rank: usize, outcome: Result<()>| match outcome {
        // Many of the programs are about a put that is never awaited.
        Ok(()) | Err(Error::Unawaited(_)) => true,
        Err(Error::Hazard(hazard)) => {
            told[rank].lock().expect("no panic").push(*hazard);
            false
        }
        Err(error) => panic!("rank {rank}: {error}"),
    };
    let seats = Seat::local(ranks);
    // Invisible to the library: no host wait becomes known to others before everything is enqueued.
    let all = Barrier::new(ranks);
    std::thread::scope(|scope| {
        for (rank, seat) in seats.into_iter().enumerate() {
            let (program, note, all) = (&program, &note, &all);
            scope.spawn(move || {
                let config = CommConfig::builder()
                    .deadline(Duration::from_secs(20))
                    .contexts(2)
                    .signals(2)
                    .build();
                let device = Host::any(u32::try_from(rank).expect("few")).expect("a device");
                let comm = Communicator::builder().seat(seat).device(device).config(config).build();
                let mut comm = comm.connect().expect("connected");
                let device = comm.device().clone();
                let mut player = Player {
                    rank,
                    window: comm.window(16).expect("a window"),
                    source: comm.window(16).expect("a window"),
                    seen: device.zeros(16).expect("memory"),
                    one: device.zeros(1).expect("memory"),
                    all: device.zeros(ranks).expect("memory"),
                    side: device.stream().expect("a stream"),
                    comm,
                };
                note(rank, program(&mut player));
                all.wait();
                let comm = player.comm;
                while !note(rank, player.side.sync()) || !note(rank, comm.stream().sync()) {}
                comm.barrier().expect("all are here");
                while !note(rank, comm.stream().sync()) {}
                note(rank, comm.finish());
            });
        }
    });
    told.into_iter().map(|told| told.into_inner().expect("no panic")).collect()
}
