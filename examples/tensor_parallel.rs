//! Tensor x data parallel: two named communicators over one world, 2 replicas of half of the
//! ranks each. Their names are types, so a window of one cannot be used with the other by accident.

use typed_nccl::{Avg, Communicator, Device, Mesh, Result, Sum, Window, World, launch, tag};

tag!(pub TensorParallel, pub DataParallel);

struct Layer<D: Device> {
    world: Communicator<D>,
    tp: Communicator<TensorParallel<D>>,
    dp: Communicator<DataParallel<D>>,
    acts: Window<f32, TensorParallel<D>>,
    grads: Window<f32, DataParallel<D>>,
}

impl<D: Device> Layer<D> {
    fn new(mut world: Communicator<D>, dp_size: usize, tp_size: usize) -> Result<Self> {
        let Mesh { along_rows: mut dp, along_cols: mut tp } =
            world.mesh::<DataParallel, TensorParallel>(dp_size, tp_size)?;
        let (acts, grads) = (tp.window(16)?, dp.window(64)?);
        Ok(Self { world, tp, dp, acts, grads })
    }

    fn forward(&mut self) -> Result<()> {
        self.tp.all_reduce_in_place(&mut self.acts, Sum)
    }

    fn sync_grads(&mut self) -> Result<()> {
        self.dp.all_reduce_in_place(&mut self.grads, Avg)
    }
}

/// A library function works with every name.
fn place<W: World>(comm: &Communicator<W>) -> String {
    format!("{} {}/{}", W::NAME, comm.rank(), comm.size())
}

fn main() -> Result<()> {
    launch!(job)
}

/// Runs on every rank, of which there must be an even number.
fn job<D: Device>(world: Communicator<D>) -> Result<()> {
    let (rank, tp) = (world.rank().index(), world.size() / 2);
    let mut layer = Layer::new(world, 2, tp)?;
    layer.acts.copy_from(&[rank as f32; 16])?;
    layer.forward()?;
    layer.grads.copy_from(&[rank as f32; 64])?;
    layer.sync_grads()?;
    let of_replica = rank / tp * tp * tp + tp * (tp - 1) / 2;
    assert_eq!(layer.acts.to_vec()?, [of_replica as f32; 16]);
    assert_eq!(layer.grads.to_vec()?, [(rank % tp) as f32 + tp as f32 / 2.0; 64]);
    println!("rank {rank}: {}, {}: verified", place(&layer.tp), place(&layer.dp));
    layer.tp.finish()?;
    layer.dp.finish()?;
    layer.world.finish()
}
