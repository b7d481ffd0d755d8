//! A thread that drives several ranks runs a collective on all of them at once.

use typed_nccl::{Clique, Host, Result, Sum};

fn main() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let mut x = clique.alloc::<f32>(8)?;
    clique.each(&mut x, |lane, mut x| lane.all_reduce_in_place(&mut x, Sum))?;
    clique.finish()
}
