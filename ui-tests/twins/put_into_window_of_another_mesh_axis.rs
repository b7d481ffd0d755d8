//! The windows of one axis of a mesh are not the other's.

use typed_nccl::{Host, Mesh, Result, Seat, tag};

tag!(DataParallel, TensorParallel);

fn main() -> Result<()> {
    let mut world = Seat::local(1).remove(0).init(Host::local()?)?;
    let Mesh { along_rows: mut dp, along_cols: mut tp } =
        world.mesh::<DataParallel, TensorParallel>(1, 1)?;
    let (acts, grads) = (tp.window::<f32>(8)?, dp.window::<f32>(8)?);
    tp.put_signal(&acts, 0, acts.at(0))?;
    dp.put_signal(&grads, 0, grads.at(0))
}
