//! One buffer on both sides is the in-place form.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    comm.all_reduce(&x, &mut x, Sum)?;
    comm.finish()
}
