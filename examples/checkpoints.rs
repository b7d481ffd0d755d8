//! A training loop that takes checkpoints while it runs, and returns to the newest one that every
//! survivor has.
//!
//! Every fifth step the parameters are copied to the host on a stream of their own, overlapping the
//! next steps' communication. Half-way one rank kills itself. An unfinished step may have changed
//! the parameters of some ranks and not of others, so the survivors agree on a checkpoint, and
//! train on from there.
//!
//! ```text
//! cargo run --example checkpoints                            # 4 threads, no GPU
//! TYPED_NCCL=cuda,survive target/debug/examples/checkpoints  # a process on each GPU: one kills itself
//! ```

use typed_nccl::{
    Buffer, Communicator, Copying, Device, Error, Pinned, Result, Stream, Sum, launch,
};

const SAMPLES: u64 = 60;
const PARAMETERS: usize = 16;
const STEPS: u64 = 100;
/// Steps between two checkpoints.
const EVERY: u64 = 5;

struct Checkpoints<D: Device> {
    stream: Stream<D>,
    /// The copy in progress, and its step.
    next: Option<(u64, Copying<u64, D>)>,
    /// The last two: ranks are at most one step apart, and so at most one checkpoint.
    kept: Vec<(u64, Pinned<u64, D>)>,
}

impl<D: Device> Checkpoints<D> {
    fn new(device: &D) -> Result<Self> {
        let first = (0, device.pinned(PARAMETERS)?); // all zero, as the parameters are
        Ok(Self { stream: device.stream()?, next: None, kept: vec![first] })
    }

    /// Starts a copy. The host only waits for the previous one, which has had time to finish.
    fn take(&mut self, device: &D, step: u64, parameters: &Buffer<u64, D>) -> Result<()> {
        self.settle()?;
        let memory = match self.kept.len() {
            2 => self.kept.remove(0).1,
            _ => device.pinned(PARAMETERS)?,
        };
        // The next write to the parameters waits for the copy; sending gradients does not.
        self.next = Some((step, self.stream.download(parameters, memory)?));
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        if let Some((step, copying)) = self.next.take() {
            self.kept.push((step, copying.wait()?));
        }
        Ok(())
    }

    fn newest(&mut self) -> Result<u64> {
        self.settle()?;
        Ok(self.kept.last().map_or(0, |(step, _)| *step))
    }

    fn back_to(&mut self, step: u64, parameters: &mut Buffer<u64, D>) -> Result<()> {
        self.kept.retain(|(kept, _)| *kept <= step);
        match self.kept.last() {
            Some((kept, memory)) if *kept == step => parameters.copy_from(memory.as_slice()),
            _ => Err(Error::other(format!("the checkpoint of step {step} is not here"))),
        }
    }
}

struct Trainer<D: Device> {
    comm: Communicator<D>,
    parameters: Buffer<u64, D>,
    checkpoints: Checkpoints<D>,
    step: u64,
}

impl<D: Device> Trainer<D> {
    /// One step; if something is wrong, first returns to a checkpoint.
    fn next(&mut self) -> Result<()> {
        if self.comm.health().is_err() {
            println!("step {}: {}", self.step, self.comm.recover()?);
            let step = *self.comm.agree(self.checkpoints.newest()?)?.min();
            self.checkpoints.back_to(step, &mut self.parameters)?;
            self.step = step;
        }
        let mut gradients = self.comm.device().from_slice(&self.backward())?;
        self.comm.all_reduce_in_place(&mut gradients, Sum)?;
        let (old, sums) = (self.parameters.to_vec()?, gradients.to_vec()?);
        let updated: Vec<u64> = old.iter().zip(sums).map(|(p, g)| p + g).collect();
        self.parameters.copy_from(&updated)?;
        self.step += 1;
        if self.step.is_multiple_of(EVERY) {
            self.checkpoints.take(self.comm.device(), self.step, &self.parameters)?;
        }
        Ok(())
    }

    /// The contribution of this rank's share of the samples.
    fn backward(&self) -> Vec<u64> {
        let share = (0..SAMPLES).skip(self.comm.rank().index()).step_by(self.comm.size());
        let sum = share.map(|sample| sample * (self.step + 1)).sum::<u64>();
        (0..PARAMETERS as u64).map(|parameter| sum * parameter).collect()
    }

    /// The numbers are right, however many ranks worked on them and whatever was repeated.
    fn verify(&self) -> Result<()> {
        let sum = SAMPLES * (SAMPLES - 1) / 2 * (self.step * (self.step + 1) / 2);
        let expected: Vec<u64> = (0..PARAMETERS as u64).map(|parameter| sum * parameter).collect();
        match self.parameters.to_vec()? {
            found if found == expected => Ok(()),
            found => Err(Error::other(format!("parameters {found:?} are not {expected:?}"))),
        }
    }
}

fn train<D: Device>(comm: Communicator<D>) -> Result<()> {
    let (parameters, checkpoints) =
        (comm.device().zeros(PARAMETERS)?, Checkpoints::new(comm.device())?);
    let mut trainer = Trainer { comm, parameters, checkpoints, step: 0 };
    let dies = trainer.comm.size() > 1 && trainer.comm.rank().index() == 1;
    while trainer.step < STEPS {
        if dies && trainer.step == STEPS / 2 + 2 {
            return die(trainer.comm);
        }
        match trainer.next() {
            Err(error) if error.is_peer_failure() => {}
            stepped => stepped?,
        }
    }
    trainer.verify()?;
    let Trainer { comm, step, .. } = trainer;
    println!("rank {} of {}: {step} steps verified", comm.rank(), comm.size());
    comm.finish()
}

/// A process dies as if by `kill`; a rank that is a thread ends its communicator.
fn die<D: Device>(comm: Communicator<D>) -> Result<()> {
    if std::thread::current().name() != Some("main") {
        comm.abort_because("it was to die");
        return Ok(());
    }
    println!("rank {} kills itself", comm.rank());
    std::process::abort();
}

fn main() -> Result<()> {
    launch!(train)
}
