//! What is only borrowed is lent.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut gradients = vec![1.0_f32; 8];
    comm.device().lend(&mut gradients, |x| comm.all_reduce_in_place(x, Sum))?;
    comm.finish()
}
