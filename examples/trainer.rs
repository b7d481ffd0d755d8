//! A struct that owns its communicator, stream, window and buffers: built in `new`, moved to
//! another thread, stepped through `&mut self`, aborted on the error path. It contains no
//! lifetimes.

use typed_nccl::{Avg, Buffer, Communicator, Device, Host, Result, Stream, Window, spmd};

/// The application's computation on its device.
trait Model<D: Device>: Send {
    fn backward(&mut self, step: u64, grads: &mut Window<f32, D>, on: &Stream<D>) -> Result<()>;
    fn update(
        &mut self,
        grads: &Window<f32, D>,
        params: &mut Buffer<f32, D>,
        on: &Stream<D>,
    ) -> Result<()>;
}

struct Trainer<D: Device, M> {
    comm: Communicator<D>,
    stream: Stream<D>,
    grads: Window<f32, D>, // registered, symmetric, owned here
    params: Buffer<f32, D>,
    model: M,
    step: u64,
}

impl<D: Device, M: Model<D>> Trainer<D, M> {
    fn new(mut comm: Communicator<D>, model: M, len: usize) -> Result<Self> {
        let stream = comm.device().stream()?;
        let grads = comm.window(len)?; // collective
        let params = comm.device().zeros(len)?;
        Ok(Self { comm, stream, grads, params, model, step: 0 })
    }

    /// One step, enqueued: the host runs ahead of the device.
    fn step(&mut self) -> Result<()> {
        self.model.backward(self.step, &mut self.grads, &self.stream)?;
        self.comm.on(&self.stream).all_reduce_in_place(&mut self.grads, Avg)?;
        self.model.update(&self.grads, &mut self.params, &self.stream)?;
        self.step += 1;
        Ok(())
    }

    fn run(mut self, steps: u64) -> Result<Vec<f32>> {
        while self.step < steps {
            if let Err(error) = self.step() {
                // The other ranks are told at once; the buffers are freed when nothing uses them
                // any more.
                self.comm.abort_because(&error.to_string());
                return Err(error);
            }
        }
        let params = self.params.to_vec()?;
        self.comm.finish()?;
        Ok(params)
    }
}

/// Gradients equal to the rank plus the step; parameters that sum them.
struct Counter {
    rank: f32,
}

impl<Tag> Model<Host<Tag>> for Counter {
    fn backward(
        &mut self,
        step: u64,
        grads: &mut Window<f32, Host<Tag>>,
        on: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let value = self.rank + step as f32;
        on.launch(grads, move |grads, ()| grads.fill(value))
    }

    fn update(
        &mut self,
        grads: &Window<f32, Host<Tag>>,
        params: &mut Buffer<f32, Host<Tag>>,
        on: &Stream<Host<Tag>>,
    ) -> Result<()> {
        on.launch((grads, params), |(grads, params), ()| {
            for (p, g) in params.iter_mut().zip(grads) {
                *p += g;
            }
        })
    }
}

fn main() -> Result<()> {
    const STEPS: u64 = 1000;
    spmd::<Host>(4, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index();
        let trainer = Trainer::new(comm, Counter { rank: rank as f32 }, 64)?;
        // Built here, run on another thread.
        let params = std::thread::scope(|scope| scope.spawn(|| trainer.run(STEPS)).join());
        let params = params.expect("the trainer does not panic")?;
        let expected = (0..STEPS).map(|step| step as f32 + 1.5).sum::<f32>();
        assert!(params.iter().all(|&p| p == expected), "{params:?} are not {expected}");
        if rank == 0 {
            println!("{STEPS} steps on 4 ranks verified");
        }
        Ok(())
    })
}
