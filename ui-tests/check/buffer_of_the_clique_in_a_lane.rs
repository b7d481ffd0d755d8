//! A lane records what was handed to it: which rank's memory that is stands in its type.

use typed_nccl::{Clique, Host, Result};

fn main() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let x = clique.alloc::<f32>(8)?;
    let mut y = clique.alloc::<f32>(8)?;
    let own = Host::any(0)?.zeros::<f32>(8)?;
    assert_eq!(own.len(), 8);
    clique.group((&x, &mut y), |lane, (x, y)| {
        let peer = lane.ring(1);
        assert_eq!(x.len(), 8);
        lane.send(own.slice(0..8), peer)?;
        lane.recv(y, peer)
    })?;
    clique.wait()?;
    clique.finish()
}
