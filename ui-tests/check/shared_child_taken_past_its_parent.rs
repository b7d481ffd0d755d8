//! A child that shares its parent's resources stays with the parent's borrow, also by `mem::replace`.

use typed_nccl::{Communicator, Host, Result, Seat, tag};

tag!(Node);

fn taken() -> Result<Communicator<Node<Host>>> {
    let mut world = Seat::local(1).remove(0).init(Host::local()?)?;
    let own = world.split::<Node>(0, 0)?;
    let mut child = world.split_shared::<Node>(0, 0)?;
    Ok(std::mem::replace(&mut child, own))
}

fn main() -> Result<()> {
    taken()?.finish()
}
