//! A training that keeps checkpoints while it goes on, and goes back to the newest that every survivor has.
//!
//! Every fifth step the parameters are copied to the host on a stream of their own, beside the next
//! steps' communication. Half-way one rank kills itself. A step that was under way may have changed the
//! parameters of some ranks and not of others: so all who live agree on a checkpoint, and train on from there.
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
/// How many steps there are between two checkpoints.
const EVERY: u64 = 5;

struct Checkpoints<D: Device> {
    stream: Stream<D>,
    /// The one that is being copied, and its step.
    next: Option<(u64, Copying<u64, D>)>,
    /// The last two: ranks are one step apart at most, and so one checkpoint.
    kept: Vec<(u64, Pinned<u64, D>)>,
}

impl<D: Device> Checkpoints<D> {
    fn new(device: &D) -> Result<Self> {
        let first = (0, device.pinned(PARAMETERS)?); // all zero, as the parameters are
        Ok(Self { stream: device.stream()?, next: None, kept: vec![first] })
    }

    /// Starts to copy; the host waits for the copy before this one alone, which has had its time.
    fn take(&mut self, device: &D, step: u64, parameters: &Buffer<u64, D>) -> Result<()> {
        self.settle()?;
        let memory = match self.kept.len() {
            2 => self.kept.remove(0).1,
            _ => device.pinned(PARAMETERS)?,
        };
        // What writes to the parameters next waits for the copy; what sends gradients does not.
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
    /// One step; first back to a checkpoint if something is wrong.
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

    /// What this rank's share of the samples adds.
    fn backward(&self) -> Vec<u64> {
        let share = (0..SAMPLES).skip(self.comm.rank().index()).step_by(self.comm.size());
        let sum = share.map(|sample| sample * (self.step + 1)).sum::<u64>();
        (0..PARAMETERS as u64).map(|parameter| sum * parameter).collect()
    }

    /// However many ranks have worked on them, and whatever was done twice, the numbers are right.
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

/// A process dies as `kill` would have it; a rank that is a thread ends its communicator.
fn die<D: Device>(comm: Communicator<D>) -> Result<()> {
    if D::KIND == "host" {
        comm.abort_because("it was to die");
        return Ok(());
    }
    println!("rank {} kills itself", comm.rank());
    std::process::abort();
}

fn main() -> Result<()> {
    launch!(train)
}
