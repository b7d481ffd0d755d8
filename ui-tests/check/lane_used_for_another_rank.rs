//! A lane is one rank's, and records until the next rank's turn.

use typed_nccl::{Clique, Host, Result};

fn main() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let x = clique.alloc::<f32>(8)?;
    let mut y = clique.alloc::<f32>(8)?;
    let mut first = None;
    clique.group((&x, &mut y), |lane, (x, y)| {
        let lane = first.get_or_insert(lane);
        lane.send(x, lane.ring(1))?;
        lane.recv(y, lane.ring(1))
    })?;
    clique.finish()
}
