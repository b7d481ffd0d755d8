//! Each rank of a clique records the views of its own device.

use typed_nccl::{Clique, Host, Result};

fn main() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let x = clique.alloc::<f32>(8)?;
    let mut y = clique.alloc::<f32>(8)?;
    clique.group((&x, &mut y), |lane, (x, y)| {
        let peer = lane.ring(1);
        lane.send(x, peer)?;
        lane.recv(y, peer)
    })?;
    clique.wait()?;
    clique.finish()
}
