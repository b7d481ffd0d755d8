//! Values of a clique's ranks are handed out by rank, not looked up by number.

use typed_nccl::{Clique, Host, Result};

fn main() -> Result<()> {
    let clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let x = clique.alloc::<f32>(8)?;
    let first = clique.to_host(&x)?.remove(0);
    assert_eq!(first, [0.0; 8]);
    clique.finish()
}
