//! A collective of a clique takes a buffer for each rank.

use typed_nccl::{Clique, Host, Result, Sum};

fn main() -> Result<()> {
    let clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let mut x = clique.alloc::<f32>(8)?;
    clique.all_reduce_in_place(&mut x, Sum)?;
    clique.finish()
}
