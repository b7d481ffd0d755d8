//! Tensor x data parallel: two named communicators over one world, 2 replicas of 4 ranks each.
//! Their names are types, so a window of one cannot be used with the other by accident.

use typed_nccl::{Avg, Communicator, Device, Host, Mesh, Result, Sum, Window, World, tag};

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
    let places = Host::spmd(8, |seat| -> Result<String> {
        let mut layer = Layer::new(seat.init()?, 2, 4)?;
        let rank = layer.world.rank().index();
        layer.acts.copy_from(&[rank as f32; 16])?;
        layer.forward()?;
        layer.grads.copy_from(&[rank as f32; 64])?;
        layer.sync_grads()?;
        assert_eq!(layer.acts.to_vec()?, [(rank / 4 * 16 + 6) as f32; 16]);
        assert_eq!(layer.grads.to_vec()?, [(rank % 4) as f32 + 2.0; 64]);
        let places = format!("{}, {}", place(&layer.tp), place(&layer.dp));
        layer.tp.finish()?;
        layer.dp.finish()?;
        layer.world.finish()?;
        Ok(places)
    })?;
    for (rank, place) in places.iter().enumerate() {
        println!("rank {rank}: {place}");
    }
    println!("all verified");
    Ok(())
}
