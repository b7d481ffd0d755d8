//! Floats have no total order, so there may be no lowest one.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let losses = comm.gather_values(&0.5_f64)?;
    println!("{:?}", losses.into_iter().min_by(f64::total_cmp));
    comm.finish()
}
