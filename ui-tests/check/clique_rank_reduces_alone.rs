//! A thread that drives several ranks runs a collective on all of them at once.

use typed_nccl::{Clique, Host, Result, Sum};

fn main() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let x = clique.alloc::<f32>(8)?;
    let mut y = clique.alloc::<f32>(8)?;
    clique.each((&x, &mut y), |lane, (x, mut y)| lane.all_reduce(&x, &mut y, Sum))?;
    clique.finish()
}
