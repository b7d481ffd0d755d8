//! A clique borrows the values of its ranks to hand them out.

use typed_nccl::{Clique, Host, Result};

fn main() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let mut x = clique.alloc::<f32>(8)?;
    clique.each(x, |lane, mut x| x.copy_from(&[lane.index() as f32; 8]))?;
    assert_eq!(clique.to_host(&x)?[1], [1.0; 8]);
    clique.finish()
}
