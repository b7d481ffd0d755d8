//! NCCL configures collectives call by call, not transfers.

use typed_nccl::{CallConfig, Ctas, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    let config = CallConfig::builder().ctas(Ctas::at_most(2)).build();
    comm.group(|g| g.with(&config).all_reduce_in_place(&mut x, Sum))?;
    comm.finish()
}
