//! A struct that owns its communicator, stream, window and buffers: built in `new`, moved to
//! another thread, stepped through `&mut self`, aborted on the error path. It contains no
//! lifetimes.

use typed_nccl::{Avg, Buffer, Communicator, Device, Result, Stream, Window, kernel, launch};

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

kernel! {
    /// `y += x`, element by element.
    fn add(x: &[f32], y: &mut [f32]);
    // SAFETY: it stays below both lengths.
    unsafe cuda r#"
        size_t stride = (size_t) gridDim.x * blockDim.x;
        for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < x_len && i < y_len; i += stride)
            y[i] += x[i];
    "#;
    host {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
    }
}

/// Gradients equal to the rank plus the step; parameters that sum them.
struct Counter {
    rank: f32,
}

impl<D: Device> Model<D> for Counter {
    fn backward(&mut self, step: u64, grads: &mut Window<f32, D>, on: &Stream<D>) -> Result<()> {
        on.fill(grads, self.rank + step as f32)
    }

    fn update(
        &mut self,
        grads: &Window<f32, D>,
        params: &mut Buffer<f32, D>,
        on: &Stream<D>,
    ) -> Result<()> {
        on.run(add(grads, params))
    }
}

fn main() -> Result<()> {
    launch!(train)
}

fn train<D: Device>(comm: Communicator<D>) -> Result<()> {
    const STEPS: u64 = 1000;
    let (rank, size) = (comm.rank().index(), comm.size());
    let trainer = Trainer::new(comm, Counter { rank: rank as f32 }, 64)?;
    // Built here, run on another thread.
    let params = std::thread::scope(|scope| scope.spawn(|| trainer.run(STEPS)).join());
    let params = params.expect("the trainer does not panic")?;
    let expected = (0..STEPS).map(|step| step as f32 + (size - 1) as f32 / 2.0).sum::<f32>();
    // NCCL's average multiplies by a rounded 1 / size.
    let is_right = |p: &f32| (p - expected).abs() <= 1e-5 * expected;
    assert!(params.iter().all(is_right), "{params:?} are not {expected}");
    if rank == 0 {
        println!("{STEPS} steps on {size} ranks verified");
    }
    Ok(())
}
