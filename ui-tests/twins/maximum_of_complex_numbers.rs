//! Complex numbers have no order.

use num_complex::Complex;
use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<Complex<f32>>(4)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.finish()
}
