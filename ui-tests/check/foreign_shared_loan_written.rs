//! What is lent shared is read.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = vec![1.0_f32; 8];
    comm.device().lend(&x, |x| comm.all_reduce_in_place(x, Sum))?;
    x.clear();
    comm.finish()
}
