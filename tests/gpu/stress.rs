//! The suite `tests/stress` on GPUs: random programs against their model, from the same source.
//!
//! On at most as many ranks as GPUs, and without groups that one rank refuses, as NCCL cannot take
//! back what the others enqueued.

#[path = "../stress/call.rs"]
mod call;
#[path = "../stress/calm.rs"]
mod calm;
#[path = "../stress/collective.rs"]
mod collective;
#[path = "../stress/draw.rs"]
mod draw;
#[path = "../stress/model.rs"]
mod model;
#[path = "../stress/play.rs"]
mod play;
#[path = "../stress/play_round.rs"]
mod play_round;
#[path = "../stress/random.rs"]
mod random;
#[path = "../stress/rank.rs"]
mod rank;
#[path = "../stress/record.rs"]
mod record;
#[path = "../stress/round.rs"]
mod round;
#[path = "../stress/seeds.rs"]
mod seeds;
#[path = "../stress/step.rs"]
mod step;
#[path = "../stress/store.rs"]
mod store;
#[path = "../stress/views.rs"]
mod views;

mod device;
mod kernels;

use std::time::Duration;

use typed_nccl::{CommConfig, Communicator, Cuda, Error, Result, Signals};

use play::{play, steps};
use random::Random;
use step::{CONTEXTS, SIGNALS, Shape, Step};

pub(crate) fn programs() -> Result<()> {
    let gpus = crate::common::most()?;
    for ranks in [1, gpus] {
        match needs(ranks) {
            Err(Error::Unsupported(why)) => {
                println!("SKIPPED stress::programs on {ranks} ranks and more: {why}");
                return Ok(());
            }
            outcome => outcome?,
        }
    }
    seeds::each("programs", 20, |seed| {
        let mut random = Random::new(seed);
        let shape = draw::shape(&mut random);
        let shape = Shape { ranks: shape.ranks.min(gpus), ..shape };
        let mut program = draw::program(&mut random, shape, steps(shape));
        for step in &mut program {
            if let Step::Round(round) = step {
                round.refused_by = None;
            }
        }
        play(seed, shape, &program);
    });
    Ok(())
}

/// Does once what every program needs: a put to the next rank that raises the last signal of the
/// last context.
fn needs(ranks: usize) -> Result<()> {
    Cuda::spmd(ranks, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().contexts(CONTEXTS).signals(SIGNALS);
        let config = config.deadline(Duration::from_secs(30)).build();
        let comm = Communicator::builder().seat(seat).device(device).config(config).build();
        let mut comm = comm.connect()?;
        let window = comm.window::<u32>(2)?;
        let slot = comm.signal_in(CONTEXTS - 1, SIGNALS - 1)?;
        let rank = comm.rank().index();
        let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let mut due = Signals::new();
        due.expect_in(previous, slot, 1);
        let on = comm.on(comm.stream());
        on.put_signal(window.slice(0..1), next, window.at(1).raising(slot))?;
        on.wait_signals(&due)?;
        comm.stream().sync()?;
        comm.finish()
    })
    .map(drop)
}
