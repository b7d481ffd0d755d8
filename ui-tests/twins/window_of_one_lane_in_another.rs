//! Each rank of a clique puts from and into its own handles of windows.

use typed_nccl::{Clique, Host, Result};

fn main() -> Result<()> {
    let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
    let source = clique.window::<f32>(8)?;
    let ghost = clique.window::<f32>(8)?;
    clique.group((&source, &ghost), |lane, (source, ghost)| {
        lane.put_signal(source.slice(0..8), lane.ring(1), ghost.at(0))?;
        lane.wait_signal(lane.ring(-1))
    })?;
    clique.finish()
}
