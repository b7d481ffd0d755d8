//! A training loop that continues when one of its ranks dies, with correct numbers.
//!
//! The ranks divide each step's samples among them, so the sum of a step does not depend on their
//! number. Half-way one rank kills itself. The others agree on the survivors, take the parameters
//! of the most advanced one, and divide the samples anew.
//!
//! ```text
//! cargo run --example survivor                             # 4 threads, no GPU
//! TYPED_NCCL=cuda,survive target/debug/examples/survivor   # a process on each GPU: one kills itself
//! ```
//!
//! The launcher must let the other ranks continue: torchrun ends them,
//! `srun --no-kill --kill-on-bad-exit=0` does not.

use typed_nccl::{Buffer, Communicator, Device, Error, Result, Root, Sum, Window, launch};

const SAMPLES: u64 = 60;
const PARAMETERS: usize = 16;

pub(crate) struct Trainer<D: Device> {
    pub(crate) comm: Communicator<D>,
    gradients: Window<u64, D>, // registered, and registered again when ranks are lost
    parameters: Buffer<u64, D>,
    pub(crate) step: u64,
}

impl<D: Device> Trainer<D> {
    pub(crate) fn new(mut comm: Communicator<D>) -> Result<Self> {
        let gradients = comm.window(PARAMETERS)?; // collective
        let parameters = comm.device().zeros(PARAMETERS)?;
        Ok(Self { comm, gradients, parameters, step: 0 })
    }

    /// One step, or recovery if something is wrong. A rank that dies makes it fail, and the next
    /// call continues without that rank.
    pub(crate) fn next(&mut self) -> Result<()> {
        if self.comm.health().is_err() {
            self.recover()?;
        }
        self.gradients.copy_from(&self.backward())?;
        self.comm.all_reduce_in_place(&mut self.gradients, Sum)?;
        let gradients = self.gradients.to_vec()?; // waits, and fails if a rank is gone
        let updated: Vec<u64> =
            self.parameters.to_vec()?.iter().zip(gradients).map(|(p, g)| p + g).collect();
        self.parameters.copy_from(&updated)?;
        self.step += 1;
        Ok(())
    }

    /// Ranks may be one step apart: the most advanced one sends its parameters to the others.
    fn recover(&mut self) -> Result<()> {
        let recovery = self.comm.recover()?;
        println!("step {}: {recovery}", self.step);
        let steps = self.comm.agree(self.step)?;
        let furthest = steps.rank_of_max();
        let mut parameters = self.comm.device().zeros(PARAMETERS)?;
        let root = match furthest == self.comm.rank() {
            true => Root::Here(&self.parameters),
            false => Root::There(furthest),
        };
        self.comm.broadcast(root, &mut parameters)?;
        self.comm.sync(self.comm.stream())?;
        // Only once they are complete, since another rank may die meanwhile.
        (self.parameters, self.step) = (parameters, *steps.max());
        Ok(())
    }

    /// The contribution of this rank's share of the samples.
    fn backward(&self) -> Vec<u64> {
        let share = (0..SAMPLES).skip(self.comm.rank().index()).step_by(self.comm.size());
        let sum = share.map(|sample| sample * (self.step + 1)).sum::<u64>();
        (0..PARAMETERS as u64).map(|parameter| sum * parameter).collect()
    }

    /// Finishes. The numbers are right, however many ranks worked on them.
    pub(crate) fn finish(self) -> Result<()> {
        let sum = SAMPLES * (SAMPLES - 1) / 2 * (self.step * (self.step + 1) / 2);
        let expected: Vec<u64> = (0..PARAMETERS as u64).map(|parameter| sum * parameter).collect();
        let found = self.parameters.to_vec()?;
        if found != expected {
            return Err(Error::other(format!("parameters {found:?} are not {expected:?}")));
        }
        let (rank, size) = (self.comm.rank(), self.comm.size());
        println!("rank {rank} of {size}: {} steps verified", self.step);
        match self.comm.finish() {
            // Nothing depends on a rank that dies now.
            Err(error) if error.is_peer_failure() => Ok(()),
            ended => ended,
        }
    }
}

/// The whole loop.
fn train<D: Device>(comm: Communicator<D>) -> Result<()> {
    const STEPS: u64 = 200;
    let mut trainer = Trainer::new(comm)?;
    let dies = trainer.comm.size() > 1 && trainer.comm.rank().index() == 1;
    while trainer.step < STEPS {
        if dies && trainer.step == STEPS / 2 {
            return die(trainer.comm);
        }
        match trainer.next() {
            Err(error) if error.is_peer_failure() => {}
            stepped => stepped?,
        }
    }
    trainer.finish()
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
