//! A statement of a group takes one buffer.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut layers = vec![comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(4)?];
    comm.group(|g| g.all_reduce_in_place(&mut layers, Sum))?;
    comm.finish()
}
