//! Floats have no total order, so there may be no lowest one.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let losses = comm.agree(0.5_f64)?;
    println!("{}", losses.min());
    comm.finish()
}
