//! A thread that drives several ranks records both halves of a transfer before either is called.

use typed_nccl::{Clique, Host, Result};

fn main() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let x = clique.alloc::<f32>(8)?;
    let mut y = clique.alloc::<f32>(8)?;
    clique.group((&x, &mut y), |lane, (x, y)| {
        lane.send(x, lane.ring(1))?;
        lane.recv(y, lane.ring(1))
    })?;
    clique.finish()
}
