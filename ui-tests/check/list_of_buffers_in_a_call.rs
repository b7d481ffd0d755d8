//! A call takes one buffer, and a group many calls.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut layers = vec![comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(4)?];
    comm.all_reduce_in_place(&mut layers, Sum)?;
    comm.finish()
}
