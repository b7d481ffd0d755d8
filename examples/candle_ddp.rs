//! Data-parallel training with candle: each rank has the weights, and its part of the batch. The
//! ranks average their gradients. Each rank also runs a single-rank training on the whole batch,
//! and every step's loss is compared with that one's.
//! `cargo run --release --features candle --example candle_ddp` runs it as 4 ranks on this machine,
//! `TYPED_NCCL=host:8` as 8; `--features candle-cuda` with `TYPED_NCCL=cuda:2` on two GPUs.

use candle_core::backprop::GradStore;
use candle_core::{Device as OnCandle, Tensor, Var};
use typed_nccl::interop::candle;
use typed_nccl::plan::Slices;
use typed_nccl::plans::grad_sync;
use typed_nccl::{Avg, Communicator, Device, Error, Result, SliceMut, Stream, launch};

const STEPS: usize = 100;
/// Per rank.
const EXAMPLES: usize = 32;
const HIDDEN: usize = 16;
const RATE: f64 = 0.2;
/// The relative difference between two losses, which sum the same numbers in different orders.
const TOLERANCE: f32 = 1e-4;

fn main() -> Result<()> {
    launch!(train)
}

fn train<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let (rank, size) = (comm.rank().index(), comm.size());
    let device = candle::device(comm.device())?;
    let (x, y) = batch(size * EXAMPLES, &device)?;
    let serial = Model::new(&device)?;
    let model = Model::new(&device)?;
    let own = |all: &Tensor| all.narrow(0, rank * EXAMPLES, EXAMPLES);
    let (own_x, own_y) = (own(&x)?, own(&y)?);

    // A bucket for the gradients of each layer.
    let sizes = model.layers.each_ref().map(|[w, b]| w.elem_count() + b.elem_count());
    let params = grad_sync::Params { k: sizes.len(), sizes: &sizes };
    let mut sync = grad_sync::bind::<f32, _>(&mut comm, params)?;
    let mut buckets = [comm.device().zeros(sizes[0])?, comm.device().zeros(sizes[1])?];

    let mut losses = Vec::new();
    for step in 0..STEPS {
        let loss = model.loss(&own_x, &own_y)?;
        let gradients = loss.backward()?;
        let all = model.gradients(&gradients)?;
        candle::in_place_each(comm.device(), &all, |all| {
            let all: Result<Vec<_>> = all.iter_mut().map(|x| x.typed::<f32>()).collect();
            let buffers = grad_sync::Buffers { g: &mut buckets };
            sync.run(&comm, buffers, &mut Gradients { all: all? })
        })?;
        model.update(&gradients)?;

        // The mean of the ranks' losses is the loss of the whole batch.
        candle::in_place(comm.device(), &loss, |loss| comm.all_reduce_in_place(loss, Avg))?;
        let (found, expected) = (loss.to_scalar::<f32>()?, serial.step(&x, &y)?);
        let apart = (found - expected).abs();
        assert!(apart <= TOLERANCE * expected, "step {step}: {found} and, serial, {expected}");
        losses.push(found);
    }
    let (first, last) = (losses[0], losses[STEPS - 1]);
    assert!(last < first / 4.0, "the loss went from {first} to {last}");
    if rank == 0 {
        println!("{size} ranks, {}: {STEPS} losses verified, {first:.4} to {last:.4}", D::KIND);
    }
    comm.finish()
}

/// A model's gradients in candle's memory, layer by layer: copied into the buckets and back.
struct Gradients<'v, D: Device> {
    all: Vec<SliceMut<'v, f32, D>>,
}

impl<D: Device> grad_sync::Steps<f32, D> for Gradients<'_, D> {
    fn backward(
        &mut self,
        i: usize,
        mut g: SliceMut<'_, f32, D>,
        stream: &Stream<D>,
    ) -> Result<()> {
        let mut begin = 0;
        for gradient in &self.all[2 * i..2 * i + 2] {
            let end = begin + gradient.len();
            stream.copy(gradient, &mut g.slice_mut(begin..end))?;
            begin = end;
        }
        Ok(())
    }

    fn apply(&mut self, g: Slices<'_, f32, D>, stream: &Stream<D>) -> Result<()> {
        for (bucket, layer) in g.iter().zip(self.all.chunks_mut(2)) {
            let mut begin = 0;
            for gradient in layer {
                let end = begin + gradient.len();
                stream.copy(bucket.slice(begin..end), gradient)?;
                begin = end;
            }
        }
        Ok(())
    }
}

/// Two layers: weights and biases.
struct Model {
    layers: [[Var; 2]; 2],
}

impl Model {
    /// The same on every rank.
    fn new(device: &OnCandle) -> candle_core::Result<Self> {
        let layer = |inputs: usize, outputs: usize| {
            let weights = (0..inputs * outputs).map(|i| (i as f32 * 1.7 + 0.3).sin() * 0.7);
            let weights: Vec<f32> = weights.collect();
            let bias = vec![0.0_f32; outputs];
            candle_core::Result::Ok([
                Var::from_vec(weights, (outputs, inputs), device)?,
                Var::from_vec(bias, outputs, device)?,
            ])
        };
        Ok(Self { layers: [layer(2, HIDDEN)?, layer(HIDDEN, 1)?] })
    }

    fn loss(&self, x: &Tensor, y: &Tensor) -> candle_core::Result<Tensor> {
        let [[w1, b1], [w2, b2]] = &self.layers;
        let hidden = x.matmul(&w1.t()?)?.broadcast_add(b1)?.tanh()?;
        let found = hidden.matmul(&w2.t()?)?.broadcast_add(b2)?;
        (found - y)?.sqr()?.mean_all()
    }

    /// One per variable, layer by layer.
    fn gradients<'g>(&self, gradients: &'g GradStore) -> Result<Vec<&'g Tensor>> {
        let of = |var| gradients.get(var).ok_or_else(|| Error::other("a variable has no gradient"));
        self.layers.iter().flatten().map(|var| of(var)).collect()
    }

    fn update(&self, gradients: &GradStore) -> Result<()> {
        for (var, gradient) in self.layers.iter().flatten().zip(self.gradients(gradients)?) {
            var.set(&(var.as_tensor() - (gradient * RATE)?)?)?;
        }
        Ok(())
    }

    /// A step of a single rank with the whole batch; returns its loss.
    fn step(&self, x: &Tensor, y: &Tensor) -> Result<f32> {
        let loss = self.loss(x, y)?;
        self.update(&loss.backward()?)?;
        Ok(loss.to_scalar()?)
    }
}

/// Points of a square, and the expected outputs.
fn batch(len: usize, device: &OnCandle) -> candle_core::Result<(Tensor, Tensor)> {
    let at = |i: usize, by: f32| (i as f32 * by).fract() * 2.0 - 1.0;
    let points: Vec<f32> = (0..len).flat_map(|i| [at(i, 0.618_034), at(i, 0.414_214)]).collect();
    let values = points.chunks(2).map(|point| point[0] * point[1] + 0.5 * point[0]).collect();
    Ok((Tensor::from_vec(points, (len, 2), device)?, Tensor::from_vec(values, (len, 1), device)?))
}
