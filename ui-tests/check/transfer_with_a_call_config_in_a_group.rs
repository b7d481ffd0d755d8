//! NCCL configures collectives call by call, not transfers.

use typed_nccl::{CallConfig, Ctas, Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(8)?;
    let config = CallConfig::builder().ctas(Ctas::at_most(2)).build();
    comm.group(|g| g.with(&config).send(&x, 0))?;
    comm.finish()
}
