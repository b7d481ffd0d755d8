//! What is adopted is the buffer's until it is given back.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let gradients = vec![1.0_f32; 8];
    let mut buffer = comm.device().adopt(gradients)?;
    comm.all_reduce_in_place(&mut buffer, Sum)?;
    let gradients = buffer.into_inner()?;
    println!("{}", gradients[0]);
    comm.finish()
}
