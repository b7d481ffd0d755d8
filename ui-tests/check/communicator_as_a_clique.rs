//! A communicator is one rank, a clique all of them.

use typed_nccl::{Clique, Communicator, Host, Result, Seat, Sum};

fn total(clique: &Clique<Host>) -> Result<Vec<f32>> {
    let mut x = clique.alloc::<f32>(1)?;
    clique.all_reduce_in_place(&mut x, Sum)?;
    Ok(clique.to_host(&x)?.remove(0))
}

fn main() -> Result<()> {
    let comm: Communicator<Host> = Seat::local(1).remove(0).init(Host::local()?)?;
    let clique = Clique::init(vec![Host::local()?])?;
    total(&comm)?;
    clique.finish()?;
    comm.finish()
}
