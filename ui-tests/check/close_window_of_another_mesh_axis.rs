//! A window is closed by the communicator that made it.

use typed_nccl::{Host, Mesh, Result, Seat, tag};

tag!(DataParallel, TensorParallel);

fn main() -> Result<()> {
    let mut world = Seat::local(1).remove(0).init(Host::local()?)?;
    let Mesh { along_rows: mut dp, along_cols: mut tp } =
        world.mesh::<DataParallel, TensorParallel>(1, 1)?;
    let (acts, grads) = (tp.window::<f32>(8)?, dp.window::<f32>(8)?);
    dp.close(grads)?;
    dp.close(acts)?;
    Ok(())
}
