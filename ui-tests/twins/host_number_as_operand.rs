//! A number is not device memory.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut loss = comm.device().from_slice(&[0.5_f32])?;
    comm.all_reduce_in_place(&mut loss, Sum)?;
    comm.finish()
}
