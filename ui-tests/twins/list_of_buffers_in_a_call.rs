//! A call takes one buffer, and a group many calls.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut layers = vec![comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(4)?];
    comm.group(|g| layers.iter_mut().try_for_each(|layer| g.all_reduce_in_place(layer, Sum)))?;
    comm.finish()
}
