//! Sums of integers are exact already, or wrap.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f64>(4)?;
    comm.all_reduce_in_place(&mut x, Sum.exact())?;
    comm.finish()
}
